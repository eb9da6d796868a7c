"""FlashInfer's kernels on a GPU that runs them: right, timed, and the same whichever way they are called."""

import pytest
import torch

import cake_tune
from cake_tune.backends import get_backend
from cake_tune.backends.flashinfer_launcher import FlashInferLauncher
from cake_tune.errors import DeviceUnfitError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Shape, every_plan, rival_plan

DUAL = Shape(num_tokens=3, num_heads=64, topk=300, extra_topk=100, page_size=48, lengths=True, sink=True)
SERVED = Shape(num_tokens=4, num_heads=16, topk=512, lengths=True, sink=True)
"""A shape that the hand-written kernels serve too."""


@pytest.fixture(scope="module")
def backend():
    made = get_backend("flashinfer")
    try:
        made.device()
    except DeviceUnfitError as error:
        pytest.skip(str(error))
    made.start()
    return made


@pytest.mark.parametrize("shape", [DUAL, SERVED, Shape(2, 8, 65), Shape(1, 128, 2048), Shape(200, 128, 512)], ids=str)
def test_every_plan_passes_the_gate_and_takes_time(backend, shape):
    with backend.open(shape, Protocol(), 1) as session:
        for plan in every_plan(shape):
            assert session.check(plan) < 4e-2
            assert all(session.least_us < sample for sample in session.sample(plan, 3))


def test_the_rival_passes_its_gate_and_takes_time(backend):
    with backend.open(SERVED, Protocol(), 1) as session:
        rival = rival_plan(SERVED, "sparse")
        assert session.check(rival) < 0.2
        assert all(session.least_us < sample for sample in session.sample(rival, 3))


@pytest.mark.parametrize("page_size", [1, 2, 48, 64])
def test_both_writers_write_the_same_bytes(backend, page_size):
    latents = torch.randn(7, page_size, 512, device="cuda").bfloat16()
    ours, theirs = (FlashInferLauncher(packer).pack(latents) for packer in ("cake-tune", "flashinfer"))
    assert torch.equal(ours, theirs)


def test_the_short_name_runs_the_plan_of_the_table(backend):
    cache = cake_tune.nvfp4_quantize_pack_sparse_mla_cache(torch.randn(64, 64, 512, device="cuda").bfloat16())
    indices = torch.randint(4096, (4, 512), dtype=torch.int32, device="cuda")
    q = torch.randn(4, 32, 512, device="cuda").bfloat16()
    output, lse = torch.empty_like(q), torch.empty(4, 32, device="cuda")
    scratch = {
        "mid_out": torch.empty(4, 32, 8, 512, dtype=torch.bfloat16, device="cuda"),
        "mid_lse": torch.empty(4, 32, 8, device="cuda"),
    }
    arguments = (q, cache, indices, output, lse, 512**-0.5)
    ran = cake_tune.decode(*arguments, **scratch, backend="flashinfer")
    assert ran == cake_tune.decode(*arguments, **scratch)
