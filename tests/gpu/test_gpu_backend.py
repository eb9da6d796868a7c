"""The ``cuda`` backend: its device, its gate, its clock."""

import math
from dataclasses import replace

import pytest
import torch

from cake_tune.backends import get_backend
from cake_tune.backends.cuda import CudaBackend
from cake_tune.backends.cuda_pools import Pools, Ring
from cake_tune.errors import ContractError, WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import device_of, nvfp4_quantize_pack_sparse_mla_cache
from cake_tune.planner.shape import Shape, every_plan

SHAPE = Shape(num_tokens=5, num_heads=64, topk=300, extra_topk=100, page_size=48, lengths=True, sink=True)


@pytest.fixture(scope="module")
def backend():
    made = get_backend("cuda")
    made.start()
    return made


def test_device_is_the_one_that_torch_sees(backend):
    """The driver's answer and torch's are one device, so that a table finds it again."""
    assert backend.device() == device_of(torch.device("cuda", 0))
    assert backend.identity().driver


def test_every_plan_passes_the_gate_and_takes_time(backend):
    """Every plan of a shape with everything in it is right, and its samples are times that a GPU can have."""
    with backend.open(SHAPE, Protocol(), 1) as session:
        for plan in every_plan(SHAPE):
            assert session.check(plan) < 5e-3
            samples = session.sample(plan, 5)
            assert len(samples) == 5
            assert all(session.least_us < sample < 1000 and math.isfinite(sample) for sample in samples)


def test_build_options_of_a_plan_are_built(backend):
    """A plan's options reach the build, and one that does not exist is refused."""
    plan = next(every_plan(SHAPE))
    with backend.open(SHAPE, Protocol(regime="warm"), 1) as session:
        assert session.check(replace(plan, options=(("qk", "nvfp4"),))) < 5e-3
        for option in ("variant", "colour"):
            with pytest.raises(ContractError, match=option):
                session.check(replace(plan, options=((option, "none such"),)))


@pytest.mark.parametrize("value", [math.nan, 1.0], ids=["unwritten", "wrong"])
@pytest.mark.parametrize("token", [0, 500, 999])
def test_gate_catches_a_wrong_output(token, value):
    """One spoiled element is found in any token, and at the second gate too."""
    spoiling = []

    def spoil(plan, output):
        if spoiling:
            output[token, 3, 100] = value

    wrong, plan = CudaBackend(spoil), next(every_plan(SHAPE))
    with wrong.open(replace(SHAPE, num_tokens=1000), Protocol(), 1) as session:
        session.check(plan)
        spoiling.append(True)
        with pytest.raises(WrongResultError):
            session.check(plan)


def test_candidates_come_back_only_after_all_others(device):
    """A ring hands out every slot once before it hands out one again, across fills of any size."""
    pool = Pools(nvfp4_quantize_pack_sparse_mla_cache).get("main", 16, 1, least=1000, wanted=1000)
    ring, slots = Ring(pool, (3, 7)), pool.slots
    taken = torch.cat([ring.sets(count).flatten() for count in (1, 5, 40, 100)])[: 2 * slots]
    for cycle in (taken[:slots], taken[slots : 2 * slots]):
        assert torch.equal(cycle.sort().values, torch.arange(slots, dtype=torch.int32, device=device))
