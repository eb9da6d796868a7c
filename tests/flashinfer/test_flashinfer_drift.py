"""The drift guard: what released FlashInfers do otherwise than this project is known, and a new difference is told."""

import inspect
import itertools
import shutil
import subprocess
import sys

import pytest

import cake_tune
from cake_tune.config import SparseMLASm120DecodeConfig, supported_sparse_mla_sm120_configs
from cake_tune.errors import DeviceUnfitError
from cake_tune.flashinfer import drift
from cake_tune.flashinfer.isolated import PREFIX, load_planners
from cake_tune.flashinfer.package import MANIFEST, Package
from cake_tune.planner.shape import HEAD_COUNTS

OURS = {name: getattr(cake_tune, name) for name in cake_tune.__all__ if name.startswith(PREFIX)}
CACHE = {name: getattr(cake_tune, name) for name in cake_tune.__all__ if name.startswith("nvfp4_")}
PLANNERS = {
    PREFIX + name: OURS[PREFIX + name] for name in ("plan_head_tiles", "plan_splits", "plan_prefill", "select_kernel")
}

KNOWN = {
    f"{PREFIX}plan_prefill_grid_head_blocks_first": "a launch hint of kernels that are not ours",
    f"{PREFIX}plan_prefill_q_evict_first": "a launch hint of kernels that are not ours",
    f"{PREFIX}plan_prefill_stages": "a build of kernels that are not ours",
    f"{PREFIX}prefill_head_tiles": "format_info()['prefill_head_tiles'] says it here",
}
"""Names that only FlashInfer has, with the reason why this project has not."""

KNOWN_CONFIG = (
    "SparseMLASm120DecodeConfig: ours (d_qk, page_block_size, max_num_tokens, topks, min_topk, max_num_heads, "
    "kv_cache_format='fp8', bytes_per_token=0, head_counts=None, topk_is_runtime=True, "
    "extra_page_block_sizes=frozenset()), theirs (d_qk, page_block_size, max_num_tokens, topks, min_topk, "
    "max_num_heads, kv_cache_format='fp8', bytes_per_token=0, head_counts=None, topk_is_runtime=True, "
    "extra_page_block_sizes=frozenset(), page_block_sizes=frozenset(), page_block_size_is_runtime=False)"
)
"""The released class says more of the main cache's page sizes than the one that this project was written after."""

TOKENS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 96, 97, 128, 129, 256, 512, 1024)
TOPKS = (1, 64, 65, 128, 256, 511, 512, 639, 640, 1024, 1152, 2048)
EXTRA_TOPKS = (0, 2, 128, 512)
PUBLISHED_SMS = (188, 170, 48)
"""The multiprocessors of the devices that FlashInfer measured: there, both sides answer from the same thresholds."""


def grid(tokens=TOKENS, topks=TOPKS):
    names = ("num_tokens", "num_heads", "topk", "extra_topk", "num_sms")
    axes = (tokens, HEAD_COUNTS, topks, EXTRA_TOPKS, PUBLISHED_SMS)
    return (dict(zip(names, point, strict=True)) for point in itertools.product(*axes))


def told(differences):
    return [str(difference) for difference in differences]


def test_signatures_are_the_same_and_names_that_only_flashinfer_has_are_known(release):
    found = {difference.name: difference.ours for difference in drift.signature_differences(release, OURS)}
    assert found == dict.fromkeys(KNOWN, "none")
    assert drift.signature_differences(release, CACHE, prefix="nvfp4_") == []


def test_limits_are_the_same(release):
    assert drift.limit_differences(release) == []


def test_planners_decide_the_same_on_the_whole_grid(release):
    assert drift.decision_differences(release, PLANNERS, grid()) == []


def test_the_fixed_facts_are_the_same(release):
    theirs = load_planners(release, [f"{PREFIX}format_info"])[f"{PREFIX}format_info"]()
    ours = cake_tune.cake_sparse_mla_sm120_dsv4_nvfp4_format_info()
    assert {name: theirs[name] for name in ours} == ours
    assert set(theirs) - set(ours) == {"kernel_commit", "prefill_kernel_commit", "prefill_ring_stages"}


def test_sizes_of_chunks_and_scratch_are_the_same(release):
    names = [f"{PREFIX}num_chunks", f"{PREFIX}scratch_bytes", f"{PREFIX}supported_heads"]
    theirs = load_planners(release, names)
    for topk, extra in itertools.product(TOPKS, EXTRA_TOPKS):
        assert theirs[names[0]](topk, extra) == OURS[names[0]](topk, extra)
        assert theirs[names[1]](3, 48, topk, extra) == OURS[names[1]](3, 48, topk, extra)
    assert theirs[names[2]]() == OURS[names[2]]()


def test_the_config_class_differs_as_known(release):
    name = SparseMLASm120DecodeConfig.__name__
    ours = inspect.signature(SparseMLASm120DecodeConfig)
    assert told(drift.compare_signatures(name, ours, release.sources.signature(name))) == [KNOWN_CONFIG]
    for method in ("supported_num_heads", "supported_topk", "supports_decode"):
        bare = inspect.signature(getattr(SparseMLASm120DecodeConfig, method))
        bare = bare.replace(parameters=list(bare.parameters.values())[1:])
        assert drift.compare_signatures(method, bare, release.sources.signature(name, method)) == []


def test_the_nvfp4_config_shares_what_both_routes_share(release):
    """FlashInfer's is that of its hand-written kernels, ours that of the Cake kernels, which serve more."""
    theirs = release.sources.constant("_STATIC_FORMAT")
    config = supported_sparse_mla_sm120_configs(kv_cache_format="nvfp4")["dsv4"]
    assert (theirs["query_dim"], theirs["bytes_per_token"]) == (config.d_qk, config.bytes_per_token)
    assert theirs["page_size"] == config.page_block_size
    assert set(theirs["topks"]) == config.topks
    assert set(theirs["heads"]) < config.head_counts
    assert release.sources.constant("_DECODE_MAX_TOKENS") == config.max_num_tokens


def test_the_kernels_are_those_of_the_first_release(release, unpacked):
    """Table and rows name them: a new set needs a new sweep, and its tables are others."""
    manifests = {version: Package(folder / "flashinfer", version).manifest for version, folder in unpacked.items()}
    assert {manifest["identity"] for manifest in manifests.values()} == {release.manifest["identity"]}
    assert release.identity == f"{release.manifest['identity']}+flashinfer-python-{release.version}"


def test_reading_a_release_imports_neither_torch_nor_flashinfer(release):
    code = f"""
import sys
from pathlib import Path
from cake_tune.flashinfer import drift
from cake_tune.flashinfer.isolated import load_planners
from cake_tune.flashinfer.package import Package
release = Package(Path({str(release.folder)!r}), {release.version!r})
plan = load_planners(release, ["{PREFIX}plan_splits"])["{PREFIX}plan_splits"]
print(plan(num_tokens=1, num_heads=16, topk=512, num_sms=188), drift.limit_differences(release))
print(*(name for name in ("torch", "flashinfer", "numpy") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(8, 1) []\n\n"


@pytest.fixture
def tampered(release, tmp_path):
    """Changes a text in a copy of a release and returns the changed one."""

    def change(file, before, after):
        shutil.copytree(release.folder, tmp_path / "flashinfer")
        path = tmp_path / "flashinfer" / file
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
        return Package(tmp_path / "flashinfer", "99.0.0")

    return change


CAKE = "mla/_sparse_mla_sm120/_cake_dsv4_nvfp4.py"


def test_a_moved_threshold_is_told_with_its_first_shapes(tampered):
    changed = tampered(CAKE, '"wide_decode_tokens_many": 8,', '"wide_decode_tokens_many": 12,')
    assert told(drift.decision_differences(changed, PLANNERS, grid(tokens=(8, 9, 12, 13), topks=(128, 512)))) == [
        f"{PREFIX}select_kernel: ours prefill, prefill, prefill, theirs decode, decode, decode "
        "(150 of 864 shapes, first num_tokens=9 num_heads=64 topk=128 extra_topk=512 num_sms=188; "
        "num_tokens=9 num_heads=64 topk=128 extra_topk=512 num_sms=170; "
        "num_tokens=9 num_heads=64 topk=128 extra_topk=512 num_sms=48)"
    ]


def test_a_shape_that_only_one_side_refuses_is_a_difference(tampered):
    changed = tampered(CAKE, "    if min_splits > max_splits:", "    if chunks > 32:")
    found = drift.decision_differences(changed, PLANNERS, grid(tokens=(1,), topks=(2048,)))
    assert told(found) == [
        f"{PREFIX}plan_splits: ours (11, 3), (11, 3), (6, 6), theirs refused, refused, refused "
        "(81 of 108 shapes, first num_tokens=1 num_heads=8 topk=2048 extra_topk=2 num_sms=188; "
        "num_tokens=1 num_heads=8 topk=2048 extra_topk=2 num_sms=170; "
        "num_tokens=1 num_heads=8 topk=2048 extra_topk=2 num_sms=48)"
    ]


def test_a_new_argument_is_told(tampered):
    changed = tampered(CAKE, "    max_splits: int = 16,\n    head_tiles: int = 1,\n", "    max_splits: int = 32,\n")
    found = told(drift.signature_differences(changed, OURS))
    assert (
        f"{PREFIX}plan_splits: "
        "ours (*, num_tokens, num_heads, topk, extra_topk=0, num_sms, max_splits=16, head_tiles=1), "
        "theirs (*, num_tokens, num_heads, topk, extra_topk=0, num_sms, max_splits=32)"
    ) in found
    assert len(found) == len(KNOWN) + 1


def test_a_name_that_is_gone_is_told(tampered):
    changed = tampered("mla/__init__.py", f'"{PREFIX}supported_heads",', "")
    assert f"{PREFIX}supported_heads: ours (), theirs none" in told(drift.signature_differences(changed, OURS))


def test_a_new_limit_is_told(tampered):
    changed = tampered(MANIFEST, '"candidates_per_chunk": 64', '"candidates_per_chunk": 128')
    assert told(drift.limit_differences(changed)) == ["candidates_per_chunk: ours 64, theirs 128"]


def test_a_planner_that_reaches_for_a_gpu_is_not_run(tampered):
    changed = tampered(CAKE, "    small_die = num_sms < _SMALL_DIE_SMS\n    if ctas", "    torch.zeros(1)\n    if ctas")
    with pytest.raises(DeviceUnfitError, match="torch is imported by 'import torch', which a planner did not need"):
        load_planners(changed, list(PLANNERS))


def test_a_planner_that_is_gone_is_an_error(release):
    with pytest.raises(DeviceUnfitError, match="plan_nothing: expected its definition in"):
        load_planners(release, ["plan_nothing"])
