"""How findings are said in one line; the terminal and report.md use the same words."""

from cake_tune.fit.crossover import Crossover
from cake_tune.planner.table import Override, Regret


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
    first, last = crossover.num_tokens[0], crossover.num_tokens[-1]
    if crossover.high is None and (crossover.threshold is None or crossover.threshold >= last):
        doubt = f" ({crossover.low}…)" if crossover.low < last else ""
        return f"decode at every measured T, {first} to {last}{doubt}"
    if crossover.threshold is not None and crossover.threshold < first:
        doubt = f" (…{crossover.high})" if crossover.high != first else ""
        return f"prefill at every measured T, {first} to {last}{doubt}"
    high = "" if crossover.high is None else crossover.high
    return f"decode up to T={crossover.threshold} ({crossover.low}…{high}), prefill above"


def regret_words(regret: Regret) -> str:
    """Mean, p95 and worst in per cent."""
    return (
        f"mean {100 * regret.mean:.2f} %, p95 {100 * regret.p95:.2f} %, worst {100 * regret.worst:.2f} % "
        f"over {regret.points} points"
    )


def tokens_words(override: Override) -> str:
    """The interval of an exception."""
    if override.min_tokens == override.max_tokens:
        return str(override.min_tokens)
    return f"{override.min_tokens}…{override.max_tokens}"
