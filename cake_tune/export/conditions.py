"""The bands of a table as the conditions of ``if`` statements, in the least words that mean the same."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cake_tune.planner.rules import DecodeLimit, PrefillBand, Share, TileBand
from cake_tune.planner.shape import DECODE_TWO_TILE_HEADS, PREFILL_TILES

WIDTH = 88
"""Longest line of code, as ``ruff format`` and FlashInfer have it."""


class Branch(NamedTuple):
    """``if`` all of ``conditions`` hold, then ``answer``; without conditions it always does."""

    conditions: tuple[str, ...]
    answer: str


def tile_branches(bands: Sequence[TileBand]) -> list[Branch]:
    """Decode head tiles, for head counts that have two."""
    branches = []
    for band in bands:
        heads = _heads([n for n in DECODE_TWO_TILE_HEADS if _within(n, band)], DECODE_TWO_TILE_HEADS)
        if heads is not None:
            chunks = _between(str(band.min_chunks or ""), _text(band.max_chunks), "chunks")
            least = "" if band.min_blocks is None or band.min_blocks.numerator == 0 else share_text(band.min_blocks)
            most = "" if band.max_blocks is None else share_text(band.max_blocks)
            ctas = _between(least, most, "ctas")
            branches.append(_branch((heads, chunks, ctas), str(band.head_tiles)))
    return _reachable(branches, "1")


def kernel_branches(limits: Sequence[DecodeLimit]) -> list[Branch]:
    """The kernel, for shapes that both kernels can run."""
    branches = []
    for limit in limits:
        heads = _heads([n for n in PREFILL_TILES if n >= limit.min_heads], tuple(PREFILL_TILES))
        if heads is not None:
            candidates = _between(str(limit.min_candidates or ""), "", "candidates")
            decode = '"decode"'
            if limit.num_tokens is not None:
                decode += f' if num_tokens <= {limit.num_tokens} else "prefill"'
            branches.append(_branch((heads, candidates), decode))
    return _reachable(branches, '"prefill"')


def prefill_branches(bands: Sequence[PrefillBand]) -> list[Branch]:
    """Prefill head tiles; ``tiles`` are those that the head count has."""
    branches = []
    for band in bands:
        having = [n for n, tiles in PREFILL_TILES.items() if band.head_tiles in tiles]
        covered = [n for n in having if _within(n, band)]
        heads = _heads(covered, having)
        if heads is not None:
            has_tiles = len(covered) > 1 and len(having) < len(PREFILL_TILES)
            candidates = _between(str(band.min_candidates or ""), _text(band.max_candidates), "candidates")
            tokens = _between("", _text(band.max_tokens), "num_tokens")
            tiles_held = f"{band.head_tiles} in tiles" if has_tiles else ""
            branches.append(_branch((heads, tiles_held, candidates, tokens), str(band.head_tiles)))
    return _reachable(branches, "tiles[-1]")


def share_text(share: Share) -> str:
    """A share of ``num_sms``, rounded down, as an expression."""
    numerator, denominator = share.numerator, share.denominator
    if numerator == denominator:
        return "num_sms"
    if numerator % denominator == 0:
        return f"{numerator // denominator} * num_sms" if numerator else "0"
    return f"num_sms // {denominator}" if numerator == 1 else f"num_sms * {numerator} // {denominator}"


def if_lines(branches: Iterable[Branch], indent: int = 4) -> list[str]:
    """``if`` statements that return, one after another; the last branch has no conditions."""
    margin = " " * indent
    lines = []
    for conditions, answer in branches:
        if not conditions:
            lines.append(f"{margin}return {answer}")
            continue
        lines += head_lines(conditions, "and", indent)
        lines.append(f"{margin}    return {answer}")
    return lines


def head_lines(conditions: Sequence[str], word: str, indent: int) -> list[str]:
    """The head of an ``if`` over ``conditions`` joined by ``and`` or ``or``, a line for each where one is too long."""
    margin = " " * indent
    line = f"{margin}if {f' {word} '.join(conditions)}:"
    if len(line) <= WIDTH:
        return [line]
    joined = [f"{margin}    {f'{word} ' if i else ''}{each}" for i, each in enumerate(conditions)]
    return [f"{margin}if (", *joined, f"{margin}):"]


def _branch(conditions: Iterable[str], answer: str) -> Branch:
    return Branch(tuple(filter(None, conditions)), answer)


def _reachable(branches: list[Branch], otherwise: str) -> list[Branch]:
    """The branches up to the first that always holds; none that an earlier one covers, or whose answer comes anyway."""
    branches = [
        branch
        for i, branch in enumerate(branches)
        if not any(set(earlier.conditions) <= set(branch.conditions) for earlier in branches[:i])
    ]
    always = next((i for i, branch in enumerate(branches) if not branch.conditions), len(branches))
    kept, last = branches[:always], branches[always] if always < len(branches) else Branch((), otherwise)
    while kept and kept[-1].answer == last.answer:
        kept.pop()
    return [*kept, last]


def _within(num_heads: int, band: TileBand | PrefillBand) -> bool:
    return band.min_heads <= num_heads and (band.max_heads is None or num_heads <= band.max_heads)


def _heads(covered: Sequence[int], possible: Sequence[int]) -> str | None:
    """Which of the ``possible`` head counts a band covers (they are neighbours); None where it covers none."""
    if not covered:
        return None
    first, last = covered[0], covered[-1]
    return _between(
        "" if first == possible[0] and len(covered) != 1 else str(first),
        "" if last == possible[-1] and len(covered) != 1 else str(last),
        "num_heads",
    )


def _between(least: str, most: str, name: str) -> str:
    """``least <= name <= most``, an empty side left open, or nothing where both are."""
    if least and least == most:
        return f"{name} == {least}"
    if least and most:
        return f"{least} <= {name} <= {most}"
    if most:
        return f"{name} <= {most}"
    return f"{name} >= {least}" if least else ""


def _text(value: int | None) -> str:
    return "" if value is None else str(value)
