"""Which shapes were measured, in few lines: most groups of a sweep have the same num_tokens."""

import textwrap
from collections import Counter
from collections.abc import Iterable

from cake_tune.export.conditions import WIDTH

Group = tuple[int, int, int]
"""(num_heads, topk, extra_topk)."""


def measured_lines(groups: dict[Group, tuple[int, ...]]) -> list[str]:
    """Source of ``_MEASURED``, a dict from each group to its num_tokens: the common ones, then what differs."""
    ((common, times),) = Counter(groups.values()).most_common(1)
    lines = _wrapped(f"_TOKENS = {_tuple(common)}", "")
    heads = sorted({group[0] for group in groups})
    topks = sorted({group[1:] for group in groups})
    differ = {group: tokens for group, tokens in groups.items() if tokens != common}
    if times > 1 and len(groups) == len(heads) * len(topks):
        lines += [
            "_MEASURED: dict[tuple[int, int, int], tuple[int, ...]] = {",
            "    (heads, topk, extra_topk): _TOKENS",
            *_wrapped(f"for heads in {_tuple(heads)}", "    "),
            *_wrapped(f"for topk, extra_topk in {_tuple(topks)}", "    "),
            "}",
        ]
        start = "_MEASURED |= {"
    else:
        differ, start = groups, "_MEASURED: dict[tuple[int, int, int], tuple[int, ...]] = {"
    if differ:
        entries = (f"{group}: {_told(tokens, common)}," for group, tokens in differ.items())
        lines += [start, *(line for entry in entries for line in _wrapped(entry, "    ")), "}"]
    return lines


def _told(tokens: tuple[int, ...], common: tuple[int, ...]) -> str:
    """The num_tokens of a group by the common ones: as many of these as it has from the smallest on, and others."""
    shared = next((i for i, count in enumerate(common) if count not in tokens), len(common))
    rest = [count for count in tokens if count not in common[:shared]]
    start = "_TOKENS" if shared == len(common) else f"_TOKENS[:{shared}]"
    if not shared:
        return _tuple(tokens)
    return f"(*{start}, {', '.join(map(str, rest))})" if rest else start


def _tuple(values: Iterable[object]) -> str:
    return str(tuple(values))


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_long_words=False)
