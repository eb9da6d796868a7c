"""The steps of the rule search: for each constant, every value at which some measured shape is decided differently.

Thresholds between two neighbouring measured values decide alike; the one that was measured stands for them all. A part
that may be dropped is tried without first: simpler wins.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cake_tune.fit.cells import Caps, DecodeCells, PrefillCells
from cake_tune.fit.decisions import fewest_splits
from cake_tune.fit.samples import Bools, Ints
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, PrefillBand, Rules, Share, Splitting, Tail, TileBand
from cake_tune.planner.shape import DECODE_TWO_TILE_HEADS, HEADS_PER_TILE, MAX_CHUNKS_PER_BLOCK, PREFILL_TILES

Entry = TypeVar("Entry", TileBand, PrefillBand, Splitting, Tail)

Field = tuple[str, Sequence[Any]]
"""A constant's field and the values to try."""


class Move(NamedTuple):
    """Alternatives for one constant, simplest first, made as they are asked for.

    ``adds``: they make the rules longer, so they must earn it. ``caps``: what they are is a cap of the splitting, whose
    totals can be had all at once; ``candidates`` are in the order of its values.
    """

    constant: str
    candidates: Iterable[Rules]
    adds: bool = False
    caps: Caps | None = None

    def at(self, place: int) -> Rules:
        """The alternative at ``place``."""
        return next(islice(self.candidates, place, None))


def decode_moves(rules: Rules, points: DecodeCells) -> Iterator[Move]:
    """Every move of the decode head tiles and splits, given the current ``rules``."""
    num_sms = points.num_sms
    paired = np.isin(points.num_heads, DECODE_TWO_TILE_HEADS)
    if paired.any():
        heads, chunks = points.num_heads[paired], points.chunks[paired]
        yield from _tile_moves(rules, heads, chunks, points.num_tokens[paired] * (heads // HEADS_PER_TILE), num_sms)
    yield from _splitting_moves(rules, points)


def prefill_moves(rules: Rules, points: PrefillCells) -> Iterator[Move]:
    """Every move of the prefill head tiles, given the current ``rules``."""
    several = np.isin(points.num_heads, [heads for heads, tiles in PREFILL_TILES.items() if len(tiles) > 1])
    if not several.any():
        return
    heads = points.num_heads[several]
    candidates, tokens = points.candidates[several], points.num_tokens[several]
    bands = rules.prefill_bands

    def with_bands(changed: Iterable[tuple[PrefillBand, ...]]) -> Iterator[Rules]:
        return (replace(rules, prefill_bands=entries) for entries in changed)

    for i, band in enumerate(bands):
        yield Move(f"prefill_bands[{i}]", with_bands([bands[:i] + bands[i + 1 :]]))
        here = _between(heads, band.min_heads, band.max_heads)
        fields: list[Field] = [("max_tokens", [*_values(tokens[here])[:-1], None])]
        for name, values in (*fields, *_ends("candidates", _values(candidates[here])), *_ends("heads", _values(heads))):
            yield Move(f"prefill_bands[{i}].{name}", with_bands(_swap(bands, i, _variants(band, name, values))))
    limits = [None, *_values(tokens)[:-1]]
    added = (
        PrefillBand(min_heads=low, max_heads=high, max_tokens=most, head_tiles=tiles)
        for low, high in _head_ranges(heads)
        for most in limits
        for tiles in (1, 2, 4)
    )
    yield Move("prefill_bands", with_bands((band, *bands) for band in added), adds=True)


def _tile_moves(rules: Rules, heads: Ints, chunks: Ints, blocks: Ints, num_sms: int) -> Iterator[Move]:
    bands = rules.tile_bands

    def with_bands(changed: Iterable[tuple[TileBand, ...]]) -> Iterator[Rules]:
        return (replace(rules, tile_bands=entries) for entries in changed)

    for i, band in enumerate(bands):
        yield Move(f"tile_bands[{i}]", with_bands([bands[:i] + bands[i + 1 :]]))
        here = _between(heads, band.min_heads, band.max_heads)
        counts = _values(blocks[here & _between(chunks, band.min_chunks, band.max_chunks)])
        fields: list[Field] = [
            ("min_blocks", [None, *_shares(counts[1:], num_sms)]),
            ("max_blocks", [None, *_shares(counts[:-1], num_sms)]),
        ]
        for name, values in (*fields, *_ends("chunks", _values(chunks[here])), *_ends("heads", _values(heads))):
            yield Move(f"tile_bands[{i}].{name}", with_bands(_swap(bands, i, _variants(band, name, values))))
    added = (
        TileBand(min_heads=low, max_heads=high, min_blocks=least, head_tiles=tiles)
        for low, high in _head_ranges(heads)
        for least in (None, *_shares(_values(blocks[_between(heads, low, high)])[1:], num_sms))
        for tiles in (1, 2)
    )
    yield Move("tile_bands", with_bands((band, *bands) for band in added), adds=True)


def _splitting_moves(rules: Rules, points: DecodeCells) -> Iterator[Move]:
    current = rules.splitting

    def moved(name: str, values: Iterable[Any]) -> Move:
        return Move(f"splitting.{name}", (replace(rules, splitting=each) for each in _variants(current, name, values)))

    def capped(name: str, caps: Caps) -> Move:
        def made() -> Iterator[Rules]:
            for cap in caps.values:
                held = Share(cap, points.num_sms)
                grid, stream = (held if caps.grid else current.grid_cap), (held if caps.stream else current.stream_cap)
                for most in caps.whole_chunks or [current.whole_chunks]:
                    changed = replace(current, grid_cap=grid, stream_cap=stream, whole_chunks=most)
                    yield replace(rules, splitting=changed)

        return Move(f"splitting.{name}", made(), caps=caps)

    tokens, chunks = points.num_tokens, points.chunks
    blocks = points.blocks(points.tiles(rules))
    wanted = fewest_splits(chunks)[:, None] * np.array(current.multiples, dtype=np.int64)[None, :]
    possible = (wanted <= DEFAULT_MAX_SPLITS) & (wanted <= chunks[:, None])
    grid_caps = _caps(blocks[:, None] * wanted, possible)
    whole = [0, *_values(chunks)]
    yield moved("multiples", _multiples(current.multiples))
    yield capped("grid_cap", Caps(grid=True, stream=False, values=grid_caps))
    yield capped("stream_cap", Caps(grid=False, stream=True, values=_caps(tokens[:, None] * wanted, possible)))
    yield moved("min_cpb", range(1, MAX_CHUNKS_PER_BLOCK + 1))
    yield moved("min_cpb_alone", range(1, MAX_CHUNKS_PER_BLOCK + 1))
    yield moved("whole_chunks", whole)
    # Either of a pair can hide that the other is too low, so that neither pays alone.
    yield capped("both caps", Caps(grid=True, stream=True, values=grid_caps))
    pairs = (
        replace(current, min_cpb=cpb, min_cpb_alone=cpb, whole_chunks=most) for cpb in (1, 2, 3, 4) for most in whole
    )
    yield Move("splitting.smallest blocks", (replace(rules, splitting=each) for each in pairs))
    # Splitting may pay for long lists alone: caps that allow it lose more on the short ones than they gain.
    yield capped("caps for long lists", Caps(grid=True, stream=True, values=grid_caps, whole_chunks=whole))
    yield from _tail_moves(rules, chunks, blocks, points.num_sms)


def _tail_moves(rules: Rules, chunks: Ints, blocks: Ints, num_sms: int) -> Iterator[Move]:
    splitting = rules.splitting

    def with_tails(tails: Iterable[Tail | None]) -> Iterator[Rules]:
        return (replace(rules, splitting=replace(splitting, tail=tail)) for tail in tails)

    sizes, counts = _values(chunks), _values(blocks)
    tail = splitting.tail
    if tail is None:
        whole, half = Share(1, 1), Share(1, 2)
        added = [Tail(min_chunks=size, min_blocks=whole, min_last_wave=half, num_splits=2) for size in sizes]
        yield Move("splitting.tail", with_tails(added), adds=True)
        return
    yield Move("splitting.tail", with_tails([None]))
    waves = _values(tail.num_splits * blocks % num_sms)
    fields: list[Field] = [
        ("min_chunks", sizes),
        ("min_blocks", _shares(counts, num_sms)),
        ("min_last_wave", _shares(waves, num_sms)),
        ("num_splits", [2, 3, 4]),
    ]
    for name, values in fields:
        yield Move(f"splitting.tail.{name}", with_tails(_variants(tail, name, values)))


def _multiples(current: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The ladder without one of its rungs, with one more, and with all."""
    whole = tuple(range(2, MAX_CHUNKS_PER_BLOCK + 1))
    without = [tuple(kept for kept in current if kept != rung) for rung in current]
    with_one = [tuple(sorted({*current, rung})) for rung in whole if rung not in current]
    return [*without, *with_one, whole]


def _caps(grid: Ints, possible: Bools) -> list[int]:
    """The caps that tell measured grids apart: below all of them, then each."""
    found = _values(grid[possible])
    return [found[0] - 1, *found] if found else []


def _variants(entry: Entry, name: str, values: Iterable[Any]) -> Iterator[Entry]:
    """``entry`` with each other value of one field that leaves it a range."""
    for value in values:
        if value != getattr(entry, name) and not _empty(entry, name, value):
            yield replace(entry, **{name: value})


def _empty(entry: object, name: str, value: Any) -> bool:
    """Whether the new end of a range lies on the wrong side of its other end."""
    side, _, what = name.partition("_")
    if side not in ("min", "max") or value is None:
        return False
    other = getattr(entry, ("max_" if side == "min" else "min_") + what, None)
    if other is None:
        return False
    low, high = (value, other) if side == "min" else (other, value)
    if isinstance(low, Share) and isinstance(high, Share):
        return low.numerator * high.denominator > high.numerator * low.denominator
    return bool(low > high)


def _swap(entries: tuple[Entry, ...], place: int, changed: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    for entry in changed:
        yield entries[:place] + (entry,) + entries[place + 1 :]  # noqa: RUF005, mypy infers this one


def _ends(what: str, values: list[int]) -> list[Field]:
    return [(f"min_{what}", [0, *values[1:]]), (f"max_{what}", [None, *values[:-1]])]


def _head_ranges(heads: Ints) -> list[tuple[int, int | None]]:
    """All head counts, then each one alone."""
    return [(0, None), *((count, count) for count in _values(heads))]


def _shares(counts: Iterable[int], num_sms: int) -> list[Share]:
    return [Share(count, num_sms) for count in counts]


def _between(values: Ints, least: int, most: int | None) -> Bools:
    return values >= least if most is None else (values >= least) & (values <= most)


def _values(values: Ints) -> list[int]:
    return [int(value) for value in np.unique(values)]
