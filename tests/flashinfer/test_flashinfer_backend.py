"""The backend ``flashinfer``: what it says before anything is measured, and a race through FlashInfer's signatures."""

import re

import pytest
import torch
from commands import cake_tune

from cake_tune.backends import check_options, get_backend
from cake_tune.backends import flashinfer as backend
from cake_tune.backends.cpu import CpuBackend
from cake_tune.backends.flashinfer_launcher import CAKE_BOUNDS, SPARSE_BOUNDS, FlashInferLauncher, compile_all
from cake_tune.cuda.requirements import arch_of
from cake_tune.errors import ContractError, DeviceUnfitError, UsageError, WrongResultError
from cake_tune.flashinfer import compiler
from cake_tune.flashinfer.interface import DECODE, PACK, PREFILL, WRAPPER
from cake_tune.flashinfer.package import find_package
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Plan, Shape, every_plan, rival_plan
from cake_tune.planner.table import FAMILY
from cake_tune.sweep.bench import Bench
from cake_tune.sweep.tasks import PointTask

RTX = "NVIDIA RTX PRO 6000 Blackwell"
QUICK = Protocol(
    regime="warm",
    sample_us=1.0,
    discard=0,
    samples=2,
    short_samples=2,
    warmup_seconds=0.0,
    early_rounds=2,
    kn_rounds=3,
    max_rounds=3,
    confirm_rounds=3,
)
SHAPE = Shape(2, 16, 128, lengths=True, sink=True)


@pytest.fixture
def gpu(monkeypatch):
    """Says which GPU is there, as the driver would."""

    def put(name, capability):
        def gpu_device(index=0, archs=None):
            return Device(name, arch_of(capability, name, archs), 188, 96 << 20)

        monkeypatch.setattr(backend, "gpu_device", gpu_device)
        monkeypatch.setattr(backend, "driver_version", lambda: "581.2")

    put(RTX, (12, 0))
    return put


SPEC = """
version: 1
backend: {backend}
shapes: {{num_tokens: 1, num_heads: 16, topk: 128}}
"""


@pytest.mark.parametrize("command", ["sweep", "verify"])
def test_without_flashinfer_the_commands_end_with_exit_code_6_and_leave_nothing(missing, tmp_path, command):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(backend="flashinfer"))
    asked = ["sweep", spec, "--results", tmp_path / "results"] if command == "sweep" else ["verify", "-b", "flashinfer"]
    done = cake_tune(*asked, cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    assert "flashinfer-python is not installed: pip install 'cake-tune[flashinfer]'" in " ".join(done.stderr.split())
    assert not (tmp_path / "results").exists()


def test_an_old_flashinfer_ends_a_sweep_with_exit_code_6(installed, tmp_path):
    folder = installed("0.7.1").parent
    (tmp_path / "spec.yaml").write_text(SPEC.format(backend="flashinfer"))
    done = cake_tune("sweep", "spec.yaml", cwd=tmp_path, PYTHONPATH=str(folder))
    assert done.returncode == 6, done.stderr
    assert "flashinfer-python 0.7.1 has no SM120 NVFP4 Cake kernels" in " ".join(done.stderr.split())


def test_flashinfer_without_a_gpu_ends_a_sweep_with_exit_code_6(installed, tmp_path):
    folder = installed("0.7.4").parent
    (tmp_path / "spec.yaml").write_text(SPEC.format(backend="flashinfer"))
    done = cake_tune("sweep", "spec.yaml", cwd=tmp_path, PYTHONPATH=str(folder), CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 6, done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("configuration", ["pack", "pack=", "pack=me", "unpack=flashinfer", "pack=flashinfer,"])
def test_a_configuration_that_is_none_is_a_usage_error(configuration):
    with pytest.raises(UsageError) as raised:
        get_backend(f"flashinfer:{configuration}")
    assert str(raised.value) == (
        "backend: expected flashinfer or flashinfer:pack=WRITER with WRITER one of cake-tune, flashinfer, "
        f"got 'flashinfer:{configuration}'"
    )


@pytest.mark.parametrize("name", ["flashinfer", "flashinfer:pack=cake-tune", "flashinfer:pack=flashinfer"])
def test_the_backend_is_named_as_the_spec_names_it(name):
    assert get_backend(name).name == name


@pytest.mark.parametrize(("capability", "arch"), [((12, 0), "sm_120a"), ((12, 1), "sm_121a")])
def test_the_device_is_the_gpu(site, gpu, capability, arch):
    gpu(RTX, capability)
    assert get_backend("flashinfer").device() == Device(RTX, arch, 188, 96 << 20)


@pytest.mark.parametrize(
    ("name", "capability"), [("NVIDIA H200", (9, 0)), ("NVIDIA A10", (8, 6)), ("NVIDIA B200", (10, 0))]
)
def test_a_gpu_that_does_not_run_the_kernels_is_told(site, gpu, name, capability):
    gpu(name, capability)
    with pytest.raises(DeviceUnfitError) as raised:
        get_backend("flashinfer").device()
    said = f"{name}: the kernels run on sm_120a, sm_121a, and this device is sm_{capability[0]}{capability[1]}"
    assert str(raised.value) == said
    assert raised.value.exit_code == 6


def test_the_identity_is_the_manifests_with_version_compiler_and_driver(site, gpu, monkeypatch):
    monkeypatch.setattr(backend, "compiler_version", lambda: "nvcc 13.0.88")
    package, identity = find_package(), get_backend("flashinfer").identity()
    assert identity.family == FAMILY
    assert identity.identity == f"{package.manifest['identity']}+flashinfer-python-{package.version}"
    assert re.fullmatch(r"[0-9a-f]{64}", package.manifest["identity"])
    assert (identity.compiler, identity.driver) == ("nvcc 13.0.88", "581.2")


def test_the_compiler_is_the_one_that_flashinfer_finds(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert compiler.compiler_version() == "nvcc 13.0.88"


@pytest.mark.parametrize("script", ["exit 1", "echo nothing known"])
def test_a_compiler_that_does_not_say_its_version_is_not_known(tmp_path, monkeypatch, script):
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text(f"#!/bin/sh\n{script}\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert compiler.compiler_version() == ""


def test_without_a_compiler_there_is_no_version(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert compiler.compiler_version() == ""


def test_its_one_option_is_the_rival():
    flashinfer = get_backend("flashinfer")
    check_options(flashinfer, [rival_plan(SHAPE, "sparse")])
    for options, got in ((("rival", "dense"), "rival=dense"), (("qk", "nvfp4"), "qk")):
        with pytest.raises(UsageError, match=rf"backend flashinfer \(rival=sparse\), got {got}"):
            check_options(flashinfer, [Plan("decode", 1, 1, 2, (options,))])


def measured(plans, shape=SHAPE, spoil=None):
    """The rows of a point by plan, raced through FlashInfer's signatures on this project's CPU grid."""
    bench = Bench(CpuBackend(spoil, FlashInferLauncher("cake-tune")), QUICK, 0)
    record = bench.measure_point(PointTask("key", shape, tuple(plans), None, 0.02), lambda plan: None)
    assert [row.plan for row in record.rows] == list(plans)
    return {row.plan: row for row in record.rows}


def is_right(row):
    """Whether the plan passed the gate, whatever a busy machine made of its times."""
    return row.status not in ("invalid", "wrong") and row.relative_error < 5e-3


def test_cake_plans_and_the_rival_race_on_the_same_inputs(standin):
    plans = [*every_plan(SHAPE), rival_plan(SHAPE, "sparse")]
    assert all(is_right(row) for row in measured(plans).values())
    called = {name for name, _ in standin.calls}
    assert called == {DECODE, PREFILL, f"{WRAPPER}.__init__", f"{WRAPPER}.run"}


def test_a_shape_that_the_rival_does_not_serve_leaves_its_row_invalid(standin):
    shape = Shape(2, 48, 128)
    *cake, rival = measured([*every_plan(shape), rival_plan(shape, "sparse")], shape).values()
    assert (rival.status, rival.error) == ("invalid", "flashinfer: no NVFP4 attention route serves this metadata")
    assert all(is_right(row) for row in cake)


def test_a_plan_that_resolves_to_another_leaves_its_row_invalid(standin):
    standin.resolved = {"num_splits": 1, "chunks_per_block": 2}
    rows = measured(list(every_plan(SHAPE)))
    split = rows[Plan("decode", 1, 2, 1)]
    assert split.status == "invalid"
    assert "it resolved to {'head_tiles': 1, 'num_splits': 1, 'chunks_per_block': 2}" in split.error
    assert is_right(rows[Plan("decode", 1, 1, 2)])


def test_a_wrong_result_is_a_wrong_row(standin):
    def spoil(plan, output):
        if plan.kernel == "prefill":
            output[1, 3] *= 1.2

    for plan, row in measured(list(every_plan(SHAPE)), spoil=spoil).items():
        assert row.status == "wrong" if plan.kernel == "prefill" else is_right(row)


def test_options_that_are_no_rival_are_refused(standin):
    with pytest.raises(ContractError, match="options: expected none, or the rival sparse, got decode/t1/s1x2/qk=nvfp4"):
        FlashInferLauncher("cake-tune").launch(Plan("decode", 1, 1, 2, (("qk", "nvfp4"),)), (), {}, ())


@pytest.mark.parametrize(("packer", "calls"), [("cake-tune", []), ("flashinfer", [PACK])])
def test_the_configuration_says_who_writes_the_cache(standin, packer, calls):
    latents = torch.randn(2, 16, 512).bfloat16()
    packed = FlashInferLauncher(packer).pack(latents)
    assert torch.equal(packed, FlashInferLauncher("cake-tune").pack(latents))
    assert [name for name, _ in standin.calls] == calls


def test_everything_can_be_compiled_before_the_first_sweep(standin):
    assert list(compile_all("cpu")) == [
        "Cake decode and prefill",
        "cache writer",
        "hand-written kernels (rival: sparse)",
    ]
    assert [name for name, _ in standin.calls] == [DECODE, PACK, f"{WRAPPER}.__init__", f"{WRAPPER}.run"]


def test_compiling_without_flashinfer_ends_with_exit_code_6(missing):
    done = cake_tune("build", "--flashinfer")
    assert done.returncode == 6
    assert "flashinfer-python is not installed: pip install 'cake-tune[flashinfer]'" in " ".join(done.stderr.split())


CODES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def through_nvfp4(values, dim):
    """The values rounded to NVFP4 in groups of 16 along ``dim``, which is padded with zeros."""
    moved = values.movedim(dim, -1)
    groups = torch.nn.functional.pad(moved, (0, -moved.shape[-1] % 16)).unflatten(-1, (-1, 16))
    scale = through_e4m3(groups.abs().amax(-1, keepdim=True) / 6)
    codes = torch.where(scale > 0, groups / scale, 0).clamp(-6, 6)
    near = CODES[(codes.abs()[..., None] - CODES).abs().argmin(-1)] * codes.sign() * scale
    return near.flatten(-2)[..., : moved.shape[-1]].movedim(-1, dim)


def through_e4m3(values):
    return values.to(torch.float8_e4m3fn).float()


@pytest.mark.parametrize("candidates", [1, 4, 16, 64, 512, 1024])
@pytest.mark.parametrize("kind", ["cake", "sparse"])
def test_the_bounds_hold_the_kernels_arithmetic_and_not_a_wrong_slot(kind, candidates):
    """The arithmetic in float32, with the roundings of each kernel put in."""
    torch.manual_seed(candidates)
    values, query = (through_nvfp4(torch.randn(rows, 512), 1) for rows in (candidates, 64))
    logits = query @ values.T * 512**-0.5
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    if kind == "cake":
        got, plan = through_e4m3(weights) @ through_e4m3(values), Plan("decode", 1, 1, 1)
    else:
        got, plan = through_nvfp4(weights, 1) @ through_nvfp4(values, 0), rival_plan(SHAPE, "sparse")
    lse = torch.logsumexp(logits, -1)[None]
    total = weights.sum(-1, keepdim=True)
    reference = (weights @ values / total)[None]
    bounds = CAKE_BOUNDS if kind == "cake" else SPARSE_BOUNDS
    error = FlashInferLauncher("cake-tune").judge(plan, (got / total)[None], lse, reference, lse)
    assert bounds.tensor / 12 < error < 0.9 * bounds.tensor
    wrong = values.clone()
    spoiled = 1 if kind == "cake" else -(-candidates // 16)
    wrong[:spoiled] = through_nvfp4(torch.randn(spoiled, 512), 1)
    if candidates <= 512:
        with pytest.raises(WrongResultError):
            FlashInferLauncher("cake-tune").judge(plan, (weights @ wrong / total)[None], lse, reference, lse)
