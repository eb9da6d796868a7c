"""Simulated devices: what makes up the time of a call on each, with presets, and with any number of random ones.

The constants are the devices: nothing here is a measurement. Those of the H200 reproduce the committed kernel times of
``results/nvidia-h200/kernel`` within 15 % or so; those of the SM120 devices keep the published ratios of SMs and
bandwidth. Pure Python, so that asking for a device loads nothing.
"""

import hashlib
import re
from dataclasses import astuple, dataclass, replace
from random import Random

from cake_tune.errors import UsageError
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import Rules
from cake_tune.planner.shape import Device, Kernel

KINDS: tuple[tuple[Kernel, int], ...] = (("decode", 1), ("decode", 2), ("prefill", 1), ("prefill", 2), ("prefill", 4))
"""Kernel and head tiles of each entry of ``SimulatedDevice.blocks``."""


@dataclass(frozen=True, slots=True)
class BlockCost:
    """One kernel with so many head tiles. ``start_us``: start and end of a block; ``chunk_us``: a chunk, computing.

    ``per_sm`` blocks share a multiprocessor; each further one makes chunks slower by the fraction ``crowding``.
    """

    per_sm: int
    start_us: float
    chunk_us: float
    crowding: float = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDevice:
    """One device. Times in microseconds, bandwidths in GB/s, ``l2_bytes`` in bytes; ``noise`` of a visit is relative.

    ``sm_gbps`` is what one multiprocessor can read, ``l2_gbps`` what the L2 serves; what does not fit the L2 while it
    is read again comes from memory again, at ``memory_gbps``. Splits are merged in ``merge_us``, ``merge_split_us`` for
    each, and the time of their partials at ``merge_gbps``. With ``rules`` none of that matters: the rules' plan is the
    fastest everywhere.
    """

    name: str
    num_sms: int
    l2_bytes: int
    memory_gbps: float
    l2_gbps: float
    sm_gbps: float
    launch_us: float
    launch_block_us: float
    merge_us: float
    merge_split_us: float
    merge_gbps: float
    blocks: tuple[BlockCost, ...]
    noise: float = 0.01
    rules: Rules | None = None

    @property
    def device(self) -> Device:
        """As tables know it: arch "simulated", so that its tables never answer for a real device."""
        return Device(self.name, "simulated", self.num_sms, self.l2_bytes)

    @property
    def digest(self) -> str:
        """Hex digits that change with any constant."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:16]


def _blocks(*costs: tuple[int, float, float, float]) -> tuple[BlockCost, ...]:
    return tuple(BlockCost(*cost) for cost in costs)


SMALL = SimulatedDevice(
    name="Simulated",
    num_sms=24,
    l2_bytes=0,
    memory_gbps=1200,
    l2_gbps=4000,
    sm_gbps=60,
    launch_us=2.0,
    launch_block_us=0.0,
    merge_us=1.2,
    merge_split_us=0.05,
    merge_gbps=400,
    blocks=_blocks((1, 0.5, 1.0, 0), (1, 0.5, 1.7, 0), (1, 4.0, 0.8, 0), (1, 4.0, 1.36, 0), (1, 4.0, 2.48, 0)),
)
"""What ``simulated`` alone means: small enough that a few tokens fill it."""

PRESETS = {
    "rtx-pro-6000": SimulatedDevice(
        name="simulated RTX PRO 6000",
        num_sms=188,
        l2_bytes=128 * 2**20,
        memory_gbps=1550,
        l2_gbps=5200,
        sm_gbps=40,
        launch_us=2.6,
        launch_block_us=0.0006,
        merge_us=1.0,
        merge_split_us=0.15,
        merge_gbps=1800,
        blocks=_blocks((2, 1.1, 1.05, 0.55), (1, 1.3, 1.5, 0), (1, 2.3, 0.98, 0), (1, 2.5, 1.35, 0), (1, 3.4, 2.15, 0)),
    ),
    "rtx-5090": SimulatedDevice(
        name="simulated RTX 5090",
        num_sms=170,
        l2_bytes=96 * 2**20,
        memory_gbps=1560,
        l2_gbps=4900,
        sm_gbps=42,
        launch_us=2.5,
        launch_block_us=0.0006,
        merge_us=1.0,
        merge_split_us=0.15,
        merge_gbps=1800,
        blocks=_blocks((2, 1.0, 1.0, 0.55), (1, 1.2, 1.45, 0), (1, 2.5, 0.95, 0), (1, 2.7, 1.3, 0), (1, 3.6, 2.1, 0)),
    ),
    "gb10": SimulatedDevice(
        name="simulated GB10",
        num_sms=48,
        l2_bytes=24 * 2**20,
        memory_gbps=235,
        l2_gbps=1300,
        sm_gbps=35,
        launch_us=3.4,
        launch_block_us=0.001,
        merge_us=1.5,
        merge_split_us=0.2,
        merge_gbps=420,
        blocks=_blocks((2, 1.2, 1.2, 0.6), (1, 1.4, 1.75, 0), (1, 2.6, 1.1, 0), (1, 2.9, 1.55, 0), (1, 4.0, 2.5, 0)),
    ),
    "h200": SimulatedDevice(
        name="simulated H200",
        num_sms=132,
        l2_bytes=50 * 2**20,
        memory_gbps=3500,
        l2_gbps=7000,
        sm_gbps=60,
        launch_us=1.8,
        launch_block_us=0.0006,
        merge_us=0.56,
        merge_split_us=0.19,
        merge_gbps=1050,
        blocks=_blocks((1, 2.95, 1.37, 0), (1, 2.6, 2.48, 0), (1, 3.2, 1.37, 0), (1, 3.3, 2.48, 0), (1, 4.6, 5.1, 0)),
    ),
}

_SKUS = {"rtx-pro-6000": 188, "rtx-5090": 170, "gb10": 48}


def simulated_device(text: str) -> SimulatedDevice:
    """The device that ``text`` names: "" (a small one), a preset, ``random:SEED``, or ``ruled:PRESET``.

    A ruled one has its optimum exactly where the published rules of that SKU put it. ``UsageError`` lists what exists.
    """
    kind, _, rest = text.partition(":")
    if not text:
        return SMALL
    if text in PRESETS:
        return PRESETS[text]
    if kind == "random" and re.fullmatch(r"[0-9]{1,9}", rest):
        return random_device(int(rest))
    if kind == "ruled" and rest in _SKUS:
        return ruled_device(PRESETS[rest], _published(_SKUS[rest]))
    raise UsageError(
        f"backend: expected simulated, alone or followed by :{', :'.join(PRESETS)}, :random:SEED, "
        f"or one of {', '.join(f':ruled:{name}' for name in _SKUS)}, got {f'simulated:{text}'!r}"
    )


def ruled_device(base: SimulatedDevice, rules: Rules) -> SimulatedDevice:
    """``base`` with its optimum exactly where ``rules`` put it."""
    return replace(base, name=f"{base.name}, ruled", rules=rules)


def random_device(seed: int) -> SimulatedDevice:
    """A device like none on the market, but possible: 24 to 216 multiprocessors, everything else drawn with them."""
    rng = Random(f"simulated device {seed}")

    def between(low: float, high: float) -> float:
        """Log-uniform."""
        drawn: float = low * (high / low) ** rng.random()
        return drawn

    num_sms = rng.randrange(24, 217)
    memory = num_sms * between(6, 28)
    chunk, start = between(0.5, 2.2), between(0.5, 2.5)
    second, fourth = between(1.25, 1.85), between(1.5, 1.9)
    shared = rng.choice((1, 1, 2, 2, 3))
    crowding = rng.uniform(0.3, 0.9)
    prefill_chunk, prefill_start = chunk * between(0.65, 1.0), start * between(1.3, 4)
    return SimulatedDevice(
        name=f"simulated random {seed}",
        num_sms=num_sms,
        l2_bytes=round(num_sms * between(0.3, 0.8)) * 2**20,
        memory_gbps=memory,
        l2_gbps=memory * between(1.8, 4),
        sm_gbps=between(25, 90),
        launch_us=between(1.5, 5),
        launch_block_us=between(0.0003, 0.002),
        merge_us=between(0.4, 3),
        merge_split_us=between(0.02, 0.3),
        merge_gbps=memory * between(0.4, 1.5),
        blocks=(
            BlockCost(shared, start, chunk, crowding),
            BlockCost(rng.choice((1, shared)), start * between(1, 1.5), chunk * second, crowding),
            BlockCost(1, prefill_start, prefill_chunk),
            BlockCost(1, prefill_start * between(1, 1.3), prefill_chunk * second),
            BlockCost(1, prefill_start * between(1.1, 1.8), prefill_chunk * second * fourth),
        ),
    )


def _published(num_sms: int) -> Rules:
    return next(
        table.rules
        for table in shipped_tables()
        if table.provenance.kind == "published" and table.device.num_sms == num_sms
    )
