"""A device that is not there: the time of every plan follows from a few constants, seen through seeded noise.

No tensors and no waiting, so that a sweep of thousands of points takes seconds. Splits pay while blocks are fewer than
multiprocessors, prefill pays once there are many: the tables fitted from it have crossovers like those of a GPU.
"""

import hashlib
import math
from contextlib import AbstractContextManager, nullcontext
from random import Random

from cake_tune.backends.base import AfterLaunch, Session
from cake_tune.errors import UsageError, WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Plan, Shape, check_plan, head_blocks
from cake_tune.planner.table import FAMILY, KernelIdentity

NUM_SMS = 24
LAUNCH_US = 2.0
CHUNK_US = {"decode": 1.0, "prefill": 0.8}
"""One chunk of one head tile in one block."""
SECOND_TILE = 0.7
"""What a further head tile costs of the first: the candidates are loaded once for all of them."""
BLOCK_US = {"decode": 0.5, "prefill": 4.0}
"""Start and end of one block."""
MERGE_US = 1.5
MERGE_SPLIT_US = 0.02
NOISE = 0.005
EXPECTED = 1.0


def true_us(shape: Shape, plan: Plan) -> float:
    """The time of ``plan`` without noise, in microseconds: waves of blocks, then the merge of the splits."""
    blocks = shape.num_tokens * head_blocks(shape.num_heads, plan.head_tiles) * plan.num_splits
    tiles = 1 + SECOND_TILE * (plan.head_tiles - 1)
    block = BLOCK_US[plan.kernel] + plan.chunks_per_block * CHUNK_US[plan.kernel] * tiles
    merge = MERGE_US + MERGE_SPLIT_US * plan.num_splits * shape.num_tokens if plan.num_splits > 1 else 0.0
    return LAUNCH_US + math.ceil(blocks / NUM_SMS) * block + merge


class SimulatedSession:
    """One shape on the simulated device."""

    least_us = LAUNCH_US

    def __init__(self, shape: Shape, seed: int, after_launch: AfterLaunch | None) -> None:
        self._shape = shape
        self._rng = Random(f"{seed} {shape}")
        self._after_launch = after_launch

    def check(self, plan: Plan) -> float:
        """Every output is ``EXPECTED``, unless the hook of the backend changes it."""
        check_plan(plan, self._shape.num_heads, self._shape.chunks)
        output = [EXPECTED] * max(1, self._shape.num_tokens)
        if self._after_launch is not None:
            self._after_launch(plan, output)
        for token, value in enumerate(output):
            if value != EXPECTED:
                raise WrongResultError(f"output: token {token}: expected {EXPECTED}, got {value}")
        return 0.0

    def sample(self, plan: Plan, count: int) -> list[float]:
        """The true time through noise."""
        time = true_us(self._shape, plan)
        return [time * math.exp(self._rng.gauss(0, NOISE)) for _ in range(count)]

    def disturbance(self) -> None:
        """Nothing ever disturbs it."""


class SimulatedBackend:
    """The simulated device as a backend."""

    name = "simulated"
    options: frozenset[str] = frozenset()

    def __init__(self, after_launch: AfterLaunch | None = None) -> None:
        self._after_launch = after_launch

    def device(self) -> Device:
        """Arch "simulated": no GPU, so that its tables never answer for one."""
        return Device("Simulated", "simulated", NUM_SMS)

    def identity(self) -> KernelIdentity:
        """The constants are the kernel."""
        constants = (NUM_SMS, LAUNCH_US, CHUNK_US, SECOND_TILE, BLOCK_US, MERGE_US, MERGE_SPLIT_US, NOISE)
        return KernelIdentity(FAMILY, hashlib.sha256(repr(constants).encode()).hexdigest()[:16], "simulated")

    def start(self) -> None:
        """Nothing to load."""

    def open(self, shape: Shape, protocol: Protocol, seed: int) -> AbstractContextManager[Session]:
        """There are no inputs to make; the regime makes no difference."""
        return nullcontext(SimulatedSession(shape, seed, self._after_launch))


def create(configuration: str, after_launch: AfterLaunch | None = None) -> SimulatedBackend:
    """The backend ``simulated``, which takes no configuration."""
    if configuration:
        raise UsageError(f"backend: expected 'simulated' without configuration, got {configuration!r}")
    return SimulatedBackend(after_launch)
