"""The ``measure`` section: the numbers of the measuring protocol by name, with bounds; defaults are the protocol's."""

from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cake_tune.measure.protocol import Protocol
from cake_tune.spec.fields import Section

_DAY = 86400.0
_DEFAULT = Protocol()


class Measure(Section):
    """Numbers of the measuring protocol that differ from its defaults."""

    regime: Literal["cold", "warm"] = Field(
        "cold",
        description="cold: the calls of a sample touch far more than the last-level cache; warm: they need not.",
    )
    cold_factor: float = Field(
        _DEFAULT.cold_factor,
        ge=1,
        le=100,
        description="Bytes touched between two uses of a line, in last-level caches, when cold.",
    )
    sample_us: float = Field(
        _DEFAULT.sample_us, gt=0, le=1e7, description="Least length of one sample, in microseconds."
    )
    discard: int = Field(_DEFAULT.discard, ge=0, le=1000, description="Samples thrown away at the start of each visit.")
    samples: int = Field(_DEFAULT.samples, ge=1, le=10_000, description="Samples kept per visit.")
    short_samples: int = Field(
        _DEFAULT.short_samples,
        ge=1,
        le=10_000,
        description="Samples kept per visit when one call takes less than short_us.",
    )
    short_us: float = Field(
        _DEFAULT.short_us, ge=0, le=1e6, description="Calls shorter than this, in microseconds, get short_samples."
    )
    warmup_seconds: float = Field(
        _DEFAULT.warmup_seconds, ge=0, le=600, description="Longest warm-up before the first point, in seconds."
    )
    aa_rounds: int = Field(
        _DEFAULT.aa_rounds, ge=2, le=1000, description="Rounds of the A/A run that sets the tie band."
    )
    band_min: float = Field(
        _DEFAULT.band_min, ge=0, le=0.5, description="Narrowest tie band, as a fraction of the time."
    )
    band_max: float = Field(_DEFAULT.band_max, gt=0, le=0.5, description="Widest tie band, as a fraction of the time.")
    early_rounds: int = Field(
        _DEFAULT.early_rounds, ge=1, le=1000, description="Rounds after which plans far behind leave the race."
    )
    early_margin: float = Field(
        _DEFAULT.early_margin,
        gt=0,
        le=10,
        description="How far behind a plan leaves after early_rounds, as a fraction.",
    )
    kn_rounds: int = Field(
        _DEFAULT.kn_rounds, ge=2, le=1000, description="Round from which the sequential test may drop plans."
    )
    alpha: float = Field(_DEFAULT.alpha, gt=0, lt=0.5, description="Error level of the sequential test.")
    max_rounds: int = Field(
        _DEFAULT.max_rounds, ge=1, le=1000, description="Rounds after which a race ends in any case."
    )
    confirm_rounds: int = Field(
        _DEFAULT.confirm_rounds,
        ge=2,
        le=1000,
        description="Fresh rounds of the winner, the plan in force and the runner-up.",
    )
    replace_gain: float = Field(
        _DEFAULT.replace_gain, ge=0, lt=1, description="Proven gain needed to replace the plan in force, as a fraction."
    )
    point_seconds: float = Field(
        _DEFAULT.point_seconds, gt=0, le=_DAY, description="Time budget of one point's race, in seconds."
    )
    timeout_seconds: float = Field(
        _DEFAULT.timeout_seconds,
        gt=0,
        le=_DAY,
        description="Seconds for which the measuring process may begin nothing new; then it is replaced, and the plan "
        "that it was at is a time-out.",
    )
    too_slow_factor: float = Field(
        _DEFAULT.too_slow_factor,
        gt=1,
        le=1e6,
        description="A plan slower than this times the best of its point, be it in force, is not raced.",
    )
    retries: int = Field(_DEFAULT.retries, ge=0, le=100, description="Times an unstable visit is taken again.")

    @model_validator(mode="after")
    def _ascending(self) -> "Measure":
        if self.band_min > self.band_max:
            key, message = "band_min", f"expected at most band_max ({self.band_max:g}), got {self.band_min:g}"
            if "band_min" not in self.model_fields_set:
                key, message = "band_max", f"expected at least band_min ({self.band_min:g}), got {self.band_max:g}"
            raise PydanticCustomError("problem", "{message}", {"message": message, "key": key})
        return self
