"""The numbers of the measuring protocol ``paired-race/1``, in one place; a spec overrides any of them by name.

Pure data: no torch, so that specs can be checked without it.
"""

from dataclasses import dataclass

PROTOCOL = "paired-race/1"


@dataclass(frozen=True, slots=True)
class Protocol:
    """How plans are sampled, raced and confirmed. Times in microseconds unless the name says seconds."""

    regime: str = "cold"
    """"cold": between two uses of a cached token, calls read at least ``cold_factor`` times the last-level cache; or
    "warm". Query, output and scratch stay hot in both: in a model, what runs before leaves them so."""
    cold_factor: float = 5.0
    sample_us: float = 200.0
    """Least length of one sample, which has as many calls as that takes, and one at least. The walk through the cold
    inputs goes on from sample to sample, whichever plan is sampled, so that no sample has to go through all of them."""
    discard: int = 3
    """Samples thrown away at the start of each visit."""
    samples: int = 20
    """Samples kept per visit."""
    short_samples: int = 50
    """Samples kept per visit when one call takes less than ``short_us``."""
    short_us: float = 10.0
    warmup_seconds: float = 2.0
    """Longest warm-up before the first point."""
    aa_rounds: int = 12
    """Rounds of the A/A run that sets the tie band."""
    band_min: float = 0.005
    band_max: float = 0.02
    """The tie band is clamp(2 * p95 / sqrt(aa_rounds), band_min, band_max)."""
    early_rounds: int = 3
    early_margin: float = 0.10
    """After ``early_rounds`` rounds a plan more than ``early_margin`` behind leaves the race."""
    kn_rounds: int = 6
    """Round from which the Kim-Nelson test may drop plans."""
    alpha: float = 0.05
    max_rounds: int = 40
    confirm_rounds: int = 12
    replace_gain: float = 0.01
    """A plan replaces the one in force only if the upper 95 % bound of its paired ratio is below 1 - replace_gain."""
    point_seconds: float = 30.0
    """Time budget of one point's race."""
    timeout_seconds: float = 120.0
    """A worker that has begun nothing new for so long hangs: it is replaced, and the plan it was at is a time-out."""
    too_slow_factor: float = 20.0
    """A plan slower than this times the best of its point is not raced (status too_slow): not even the plan in force,
    which runs to the end of every race else. No fresh rounds are needed to tell that it is to be replaced."""
    retries: int = 3
    """Times an unstable visit is taken again."""
