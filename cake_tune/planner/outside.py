"""How a table answers for shapes that were not measured, and the cross-validation that chose it."""

from dataclasses import dataclass
from typing import Literal

from cake_tune.errors import TableError
from cake_tune.planner.cost import CostModel
from cake_tune.planner.regret import Regret

Method = Literal["rules", "rules+exceptions", "cost_model"]
"""rules: the rules alone. rules+exceptions: where an exception holds the num_tokens at the nearest measured num_heads
and topk, its plan; else the rules. cost_model: the plan that takes least by the calibrated cost model."""

METHODS: tuple[Method, ...] = ("rules", "rules+exceptions", "cost_model")
"""Simplest first."""


@dataclass(frozen=True, slots=True)
class Score:
    """What ``method`` lost on measured points that its fit did not see.

    ``groups``: whole (num_heads, topk, extra_topk) were left out; ``tokens``: some num_tokens of each were. None where
    there were too few to leave any out.
    """

    method: Method
    groups: Regret | None = None
    tokens: Regret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """``groups`` answers for a (num_heads, topk, extra_topk) without any measurement, ``tokens`` for other num_tokens
    of a measured one; ``why`` says for people what spoke for them, ``scores`` holds the numbers.

    ``cost_model`` is there exactly if one of the two needs it.
    """

    groups: Method
    tokens: Method
    why: str
    scores: tuple[Score, ...] = ()
    cost_model: CostModel | None = None

    def __post_init__(self) -> None:
        needed = "cost_model" in (self.groups, self.tokens)
        if needed != (self.cost_model is not None):
            held = "missing" if needed else "there"
            raise TableError(
                f"cost_model: expected exactly where groups or tokens is cost_model, got it {held} with "
                f"{self.groups} and {self.tokens}"
            )
        named = [score.method for score in self.scores]
        if len(named) != len(set(named)):
            raise TableError(f"scores: expected one entry per method, got {', '.join(named)}")
