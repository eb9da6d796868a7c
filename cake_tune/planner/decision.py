"""The answer of a table to a question: a plan, and how far it can be trusted."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from cake_tune.planner.outside import Method
from cake_tune.planner.shape import Plan, other_kernel

if TYPE_CHECKING:
    from cake_tune.planner.table import Override, PlannerTable

Source = Literal["measured", "rule", "extrapolated"]
"""measured: a sweep has timed the plan on this very shape (num_tokens, num_heads, topk and extra_topk all the same).
rule: the shape lies inside the hull of what was measured with the plan's kernel, but the plan was not timed on it: the
rules or the cost model answer, or an exception reaches here from measured shapes next to this one. A published table,
which lists no measurements, rules on its own num_sms.
extrapolated: outside that hull, or on another num_sms than the table's."""


class Decision(NamedTuple):
    """A plan, how far it can be trusted, the table that gave it, and the exception it is, if it is one.

    ``method``: "cost_model" for a plan of the cost model, "rules+exceptions" for an exception of the nearest measured
    num_heads and topk; None where rules or the shape's own exceptions answer.
    """

    plan: Plan
    source: Source
    table: "PlannerTable"
    num_sms: int
    override: "Override | None" = None
    method: Method | None = None

    @property
    def why(self) -> str:
        """For people: what decided, and on what grounds; and which kernel the table never timed, if there is one."""
        untimed = self.table.untimed
        if untimed is None:
            return self._grounds
        judged = f": its certificate is for {other_kernel(untimed)} alone" if self.table.certificate else ""
        return f"{self._grounds}; the table timed no {untimed}{judged}"

    @property
    def _grounds(self) -> str:
        rules = f"{'cost model' if self.method == 'cost_model' else 'rules'} of {self.table.label}"
        if self.override is not None:
            tokens = f"{self.override.min_tokens} to {self.override.max_tokens} tokens"
            near = "" if self.source == "measured" else ", measured at other num_tokens among these"
            if self.method is not None:
                at = self.override
                extra = f" and extra_topk {at.extra_topk}" if at.extra_topk else ""
                near = f" at {at.num_heads} heads, topk {at.topk}{extra}, the nearest measured"
            lost = f"the rules would lose {self.override.regret:.1%}"
            return f"exception of {self.table.label} for {tokens}{near}: {lost}"
        if self.source == "measured":
            return f"{rules}, measured at this shape"
        if self.source == "rule":
            return rules
        if self.num_sms != self.table.device.num_sms:
            return f"{rules}, extrapolated to {self.num_sms} SMs"
        return f"{rules}, extrapolated beyond what was measured"
