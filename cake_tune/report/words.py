"""How findings are said in one line; the terminal and report.md use the same words."""

from collections.abc import Iterator

from cake_tune.fit.crossover import Crossover
from cake_tune.fit.kept import Kept
from cake_tune.fit.samples import Samples
from cake_tune.planner.outside import Method
from cake_tune.planner.table import Override, PlannerTable, Regret
from cake_tune.report.policies import Policy
from cake_tune.sweep.words import counted

BRACKET = (
    "in parentheses the bracket (95 %): decode is the faster up to its first T (0: nowhere), prefill from its second T "
    "on (none given: nowhere measured)"
)
"""What the parentheses of ``crossover_words`` mean."""

STALE = "table.json is not what the journal gives now: run emit"


def group_name(num_heads: int, topk: int, extra_topk: int) -> str:
    """``H=64 topk=512`` or, with a second cache, ``H=64 topk=512+128``."""
    extra = f"+{extra_topk}" if extra_topk else ""
    return f"H={num_heads} topk={topk}{extra}"


def crossover_words(crossover: Crossover) -> str:
    """What to use where, with the bracket in parentheses."""
    if crossover.intervals:
        parts = [
            f"{each.kernel} T={each.min_tokens}…{each.max_tokens}"
            if each.max_tokens is not None
            else f"{each.kernel} from T={each.min_tokens}"
            for each in crossover.intervals
        ]
        return "no single crossover: " + ", ".join(parts)
    bracket = f"({crossover.low}…{'' if crossover.high is None else crossover.high})"
    if crossover.everywhere is None:
        return f"decode up to T={crossover.threshold} {bracket}, prefill above"
    first, last = crossover.num_tokens[0], crossover.num_tokens[-1]
    where = f"at the one measured T, {first}" if first == last else f"at every measured T, {first} to {last}"
    return f"{crossover.everywhere} {where}" + (f" {bracket}" if crossover.doubtful else "")


def regret_words(regret: Regret) -> str:
    """Mean, p95 and worst in per cent."""
    return (
        f"mean {100 * regret.mean:.2f} %, p95 {100 * regret.p95:.2f} %, worst {100 * regret.worst:.2f} % "
        f"over {counted(regret.points, 'shape')}"
    )


def policy_words(policy: Policy) -> str:
    """``regret_words`` of a policy, and at how many shapes its plan has no time."""
    if not policy.timed:
        return f"unknown, its plans have no time at any of {counted(len(policy.regrets), 'shape')}"
    missing = f", without a time at {policy.untimed} of them" if policy.untimed else ""
    return regret_words(policy.summary) + missing


def measured_words(samples: Samples) -> str:
    """How many points have times, and how many shapes they are to the planners, which see neither flags nor pages."""
    points = int(samples.variants.sum())
    if points == len(samples):
        return str(points)
    return f"{points} ({counted(len(samples), 'shape')}: lengths, sinks and page sizes are taken together)"


def kept_words(kept: list[Kept], samples: Samples) -> str:
    """At how many shapes a slower plan stayed, and by how much slower it measured; ``kept`` is not empty."""
    return (
        f"at {len(kept)} of {counted(len(samples), 'shape')} the race kept a plan that measured slower than another by "
        f"more than the tie band, by up to {100 * kept[0].loss:.2f} %, but not surely by enough to replace it"
    )


def sure_words(kept: Kept) -> str:
    """The loss that is sure, in per cent."""
    return "not known" if kept.sure is None else f"{100 * kept.sure:.2f} %"


def method_words(method: Method) -> str:
    """A way to answer for shapes that were not measured."""
    return {"rules": "rules", "rules+exceptions": "rules + exceptions", "cost_model": "cost model"}[method]


def at_measured_only(table: PlannerTable) -> bool:
    """Whether exceptions answer at measured num_tokens alone, since something else answers between them."""
    return table.outside is not None and table.outside.tokens != "rules+exceptions"


def exceptions_words(table: PlannerTable) -> str:
    """How many exceptions ``table`` has, and where they answer: between measured num_tokens something else may."""
    if table.outside is None or not at_measured_only(table):
        return f"{counted(len(table.exceptions), 'interval')} of num_tokens"
    between = method_words(table.outside.tokens)
    return f"{len(table.exceptions)}, each at measured num_tokens alone (between them: {between})"


def held_out_lines(table: PlannerTable) -> Iterator[str]:
    """What the methods that answer for unmeasured shapes lose on measured ones that their fit did not see."""
    if table.certificate is not None and table.certificate.held_out is not None:
        by = "same fit" if table.outside is None else method_words(table.outside.groups)
        yield f"regret, {by} on num_heads and top-ks held out of the fit: {regret_words(table.certificate.held_out)}"
    if table.outside is not None:
        method = table.outside.tokens
        regret = next((score.tokens for score in table.outside.scores if score.method == method), None)
        if regret is not None:
            yield f"regret, {method_words(method)} on num_tokens held out of the fit: {regret_words(regret)}"


def exception_words(override: Override, table: PlannerTable) -> str:
    """The num_tokens at which an exception answers: its interval, or the measured ones in it."""
    if not at_measured_only(table):
        return tokens_words(override)
    group = (override.num_heads, override.topk, override.extra_topk)
    measured = {
        num_tokens
        for region in table.measured
        if (region.num_heads, region.topk, region.extra_topk) == group
        for num_tokens in (*region.decode, *region.prefill)
        if override.min_tokens <= num_tokens <= override.max_tokens
    }
    return ", ".join(map(str, sorted(measured))) or "none"


def tokens_words(override: Override) -> str:
    """The interval of an exception."""
    if override.min_tokens == override.max_tokens:
        return str(override.min_tokens)
    return f"{override.min_tokens}…{override.max_tokens}"
