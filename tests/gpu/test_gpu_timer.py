"""The graph timer, the monitor and the pools of the ``cuda`` backend, on the GPU that they are for."""

from dataclasses import replace

import pytest
import torch

from cake_tune.backends import get_backend
from cake_tune.backends.cuda_pools import KEPT_POOLS, Pools, Ring
from cake_tune.backends.cuda_timer import ReplayClock, capture
from cake_tune.cuda.devices import gpu_device, visible_gpus
from cake_tune.cuda.facts import gpu_facts
from cake_tune.cuda.monitor import GpuMonitor
from cake_tune.errors import RegimeError
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import nvfp4_quantize_pack_sparse_mla_cache
from cake_tune.planner.shape import Shape, every_plan

SHAPE = Shape(num_tokens=4, num_heads=16, topk=512)
PLAN = next(every_plan(SHAPE))


@pytest.fixture(scope="module")
def backend():
    made = get_backend("cuda")
    made.start()
    return made


def test_visible_gpus_are_those_that_torch_sees():
    """Same order, same names, and identifiers that NVML knows."""
    gpus = visible_gpus()
    assert [gpu.index for gpu in gpus] == list(range(torch.cuda.device_count()))
    for gpu in gpus:
        properties = torch.cuda.get_device_properties(gpu.index)
        assert gpu.uuid == f"GPU-{properties.uuid}"
        assert (gpu.name, gpu.num_sms) == (properties.name, properties.multi_processor_count)


def test_the_monitor_reads_clock_heat_and_power():
    """NVML answers for the GPU by its UUID, and the facts of a run name its limits."""
    monitor = GpuMonitor(visible_gpus()[0].uuid)
    torch.zeros(1 << 20, device="cuda").add_(1)
    assert 100 < monitor.reading().sm_clock_mhz < 4000
    figures = monitor.figures()
    assert 10 < figures["temperature_c"] < 110
    assert 10 < figures["power_w"] < 2000
    assert gpu_facts()["gpu"] == visible_gpus()[0].uuid
    assert "nvml" not in gpu_facts()


def test_samples_last_as_long_as_asked_and_are_accounted_for(backend):
    """The calls of a sample add up to ``sample_us``, and the audit holds at least the time of all samples."""
    with backend.open(SHAPE, Protocol(), 1) as session:
        times = session.sample(PLAN, 10)
        assert session.calls_per_sample(PLAN) * sorted(times)[5] >= 0.8 * Protocol().sample_us
        audit = session.audit()
        assert audit["gpu_seconds"] * 1e6 >= sum(times) * session.calls_per_sample(PLAN)
        assert audit["between_uses_l2"] >= Protocol().cold_factor
        assert session.disturbance() is None or "clock" in session.disturbance()
        assert session.least_us > 0.5 or SHAPE.num_tokens * SHAPE.topk * 384 < 2e6


def test_cold_calls_are_slower_than_warm_ones_and_a_warm_one_that_does_not_fit_is_refused(backend):
    """The two regimes differ on the same shape; what a call touches must stay in the L2 to be called warm."""
    shape = Shape(num_tokens=64, num_heads=16, topk=512)
    plan = next(every_plan(shape))
    medians = {}
    for regime in ("cold", "warm"):
        with backend.open(shape, Protocol(regime=regime), 1) as session:
            medians[regime] = sorted(session.sample(plan, 21))[10]
    assert medians["warm"] < medians["cold"]
    large = Shape(num_tokens=1024, num_heads=128, topk=2048)
    with backend.open(large, Protocol(regime="warm"), 1) as session, pytest.raises(RegimeError, match="'warm'"):
        session.sample(next(every_plan(large)), 1)


def test_a_cold_factor_beyond_all_memory_is_out_of_memory(backend):
    """Pools are halved down to what the proof needs; where that does not fit, the point is out of memory."""
    with pytest.raises(MemoryError), backend.open(SHAPE, replace(Protocol(), cold_factor=1e5), 1):
        pass
    with backend.open(SHAPE, Protocol(), 1) as session:
        assert session.check(PLAN) < 5e-3


def test_pools_are_kept_for_the_next_shape():
    """The same side and page size give the same pool, unless it is too small; only the last few are kept."""
    pools = Pools(nvfp4_quantize_pack_sparse_mla_cache)
    first = pools.get("main", 64, 0, least=1000, wanted=4000)
    assert pools.get("main", 64, 0, least=2000, wanted=4000) is first
    assert pools.get("main", 64, 0, least=9000, wanted=9000).slots >= 9000
    kept = pools.get("extra", 64, 0, least=100, wanted=100)
    for page_size in range(1, KEPT_POOLS + 1):
        pools.get("main", page_size, 0, least=100, wanted=100)
    assert pools.get("extra", 64, 0, least=100, wanted=100) is not kept


def test_a_graph_runs_its_calls_in_order():
    """Every call of a capture runs once per replay, on the index set of its number."""
    pool = Pools(nvfp4_quantize_pack_sparse_mla_cache).get("main", 16, 0, least=1000, wanted=1000)
    sets, seen = Ring(pool, (2, 5)).sets(3), torch.zeros(3, 2, 5, dtype=torch.int32, device="cuda")
    graph = capture(lambda number: seen[number].add_(sets[number]), 3)
    seen.zero_()
    times = ReplayClock().time(graph.replay, 2)
    assert torch.equal(seen, 2 * sets)
    assert len(times) == 2
    assert min(times) > 0


def test_the_device_says_what_the_driver_says():
    """Asked twice, by index, it is one device."""
    assert gpu_device(0).num_sms == visible_gpus()[0].num_sms
