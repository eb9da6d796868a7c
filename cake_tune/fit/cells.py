"""What a rule sees of the measured points: one cell per distinct question, with the regret of every answer.

Rules know neither the split of the candidates over two caches nor page sizes, so that many points ask the same. Where
a cell's answer is a step function of one constant, its total is worked out for every value of that constant at once.
"""

from typing import NamedTuple, Protocol

import numpy as np

from cake_tune.fit.choices import Choices, decode_choice
from cake_tune.fit.decisions import (
    decode_head_tiles,
    fewest_splits,
    grid_blocks,
    ladder_splits,
    prefill_head_tiles,
    resolved,
    tail_splits,
)
from cake_tune.fit.samples import Floats, Ints
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, Rules, Splitting, TileBand


class Caps(NamedTuple):
    """A cap of the splitting with the values to try: on blocks, on streams, or one for both.

    With ``whole_chunks`` every pair of a cap and one of these, the caps outermost.
    """

    grid: bool
    stream: bool
    values: list[int]
    whole_chunks: list[int] | None = None


class Cells(Protocol):
    """The cells of one kernel."""

    @property
    def choices(self) -> Choices:
        """What they were made of."""

    def choose(self, rules: Rules) -> Ints:
        """The column of the regrets that ``rules`` take in each cell."""

    def total(self, choice: Ints) -> float:
        """Total regret of one column per cell."""

    def mean_gain(self, before: Ints, after: Ints) -> float:
        """What ``after`` saves over ``before`` where they differ, on average."""

    def least_gain(self, before: Ints, after: Ints) -> float:
        """The least that it saves, bootstrapped over rounds."""


class _Collapsed:
    """Points with the same integers as one cell."""

    def __init__(self, choices: Choices, *numbers: Ints) -> None:
        self.choices = choices
        distinct, self._cell = np.unique(np.stack(numbers, axis=1), axis=0, return_inverse=True)
        self._cell = self._cell.reshape(-1)
        self._numbers = tuple(np.ascontiguousarray(column) for column in distinct.T)
        self.regret: Floats = np.zeros((len(distinct), choices.regret.shape[1]))
        np.add.at(self.regret, self._cell, choices.regret)
        self._every = np.arange(len(distinct))

    def total(self, choice: Ints) -> float:
        """Total regret of one column per cell."""
        return float(self.regret[self._every, choice].sum())

    def mean_gain(self, before: Ints, after: Ints) -> float:
        """What ``after`` saves over ``before`` where they differ, on average."""
        return self.choices.mean_gain(before[self._cell], after[self._cell])

    def least_gain(self, before: Ints, after: Ints) -> float:
        """The least that it saves, bootstrapped over rounds."""
        return self.choices.least_gain(before[self._cell], after[self._cell])


class DecodeCells(_Collapsed):
    """Cells of decode: num_tokens, num_heads and chunks decide its head tiles and splits."""

    def __init__(self, choices: Choices, num_sms: int) -> None:
        points = choices.samples.take(choices.point)
        super().__init__(choices, points.num_tokens, points.num_heads, points.chunks)
        self.num_tokens, self.num_heads, self.chunks = self._numbers
        self.num_sms = num_sms
        self._blocks = {tiles: grid_blocks(self.num_tokens, self.num_heads, np.int64(tiles)) for tiles in (1, 2)}  # type: ignore[arg-type]
        self._tiles: tuple[tuple[TileBand, ...], Ints] | None = None
        self._ladders: tuple[object, Ints, Ints] | None = None

    def choose(self, rules: Rules) -> Ints:
        """The column of the regrets that ``rules`` take in each cell."""
        tiles = self.tiles(rules)
        splitting = rules.splitting
        single, double = self._both_ladders(splitting)
        taken = np.where(tiles == 2, double, single)
        taken = tail_splits(splitting, taken, self.blocks(tiles), self.chunks, self.num_sms)
        return decode_choice(tiles, resolved(self.chunks, taken))

    def tiles(self, rules: Rules) -> Ints:
        """Head tiles of each cell; kept from the last call, since most constants do not move them."""
        if self._tiles is None or self._tiles[0] != rules.tile_bands:
            found = decode_head_tiles(rules, self.num_tokens, self.num_heads, self.chunks, self.num_sms)
            self._tiles = rules.tile_bands, found
        return self._tiles[1]

    def blocks(self, tiles: Ints) -> Ints:
        """Blocks of the unsplit grid."""
        return np.where(tiles == 2, self._blocks[2], self._blocks[1])

    def cap_totals(self, rules: Rules, caps: Caps) -> Floats:
        """Total regret for every value of ``caps``."""
        if caps.whole_chunks is None:
            return self._cap_totals(rules, caps, rules.splitting.whole_chunks)
        each = [self._cap_totals(rules, caps, most) for most in caps.whole_chunks]
        return np.stack(each, axis=1).ravel()

    def _cap_totals(self, rules: Rules, caps: Caps, whole_chunks: int) -> Floats:
        """Each rung of the ladder is taken from the cap on that it needs: sort these, add up what each one saves."""
        splitting, tiles, chunks, tokens = rules.splitting, self.tiles(rules), self.chunks, self.num_tokens
        blocks, fewest = self.blocks(tiles), fewest_splits(chunks)
        grid_cap, stream_cap = splitting.grid_cap.of(self.num_sms), splitting.stream_cap.of(self.num_sms)
        first = tail_splits(splitting, fewest, blocks, chunks, self.num_sms)
        first = np.where(chunks > whole_chunks, first, fewest)
        held = self.regret[self._every, decode_choice(tiles, resolved(chunks, first))]
        base = float(held.sum())
        live = np.flatnonzero(chunks > whole_chunks)
        held = held[live]
        needs, saved = [], []
        for multiple in splitting.multiples:
            wanted = fewest[live] * multiple
            least = np.where(blocks[live] == 1, splitting.min_cpb_alone, splitting.min_cpb)
            more = (wanted <= DEFAULT_MAX_SPLITS) & (-(-chunks[live] // wanted) >= least)
            if not caps.grid:
                more &= blocks[live] * wanted <= grid_cap
            if not caps.stream:
                more &= tokens[live] * wanted <= stream_cap
            live, held, wanted = live[more], held[more], wanted[more]
            if not len(live):
                break
            here = self.regret[live, decode_choice(tiles[live], resolved(chunks[live], wanted))]
            grid, stream = blocks[live] * wanted, tokens[live] * wanted
            needs.append(np.maximum(grid if caps.grid else 0, stream if caps.stream else 0))
            saved.append(here - held)
            held = here
        if not needs:
            return np.full(len(caps.values), base)
        at, steps = np.concatenate(needs), np.concatenate(saved)
        order = np.argsort(at, kind="stable")
        reached = np.searchsorted(at[order], np.array(caps.values), side="right")
        return base + np.concatenate([[0.0], np.cumsum(steps[order])])[reached]

    def _both_ladders(self, splitting: Splitting) -> tuple[Ints, Ints]:
        parts = (
            splitting.grid_cap,
            splitting.stream_cap,
            splitting.min_cpb,
            splitting.min_cpb_alone,
            splitting.whole_chunks,
            splitting.multiples,
        )
        if self._ladders is None or self._ladders[0] != parts:
            found = [
                ladder_splits(splitting, self.num_tokens, self._blocks[tiles], self.chunks, self.num_sms)
                for tiles in (1, 2)
            ]
            self._ladders = parts, found[0], found[1]
        return self._ladders[1], self._ladders[2]


class PrefillCells(_Collapsed):
    """Cells of prefill: num_tokens, num_heads and candidates decide its head tiles."""

    def __init__(self, choices: Choices) -> None:
        points = choices.samples.take(choices.point)
        super().__init__(choices, points.num_tokens, points.num_heads, points.topk + points.extra_topk)
        self.num_tokens, self.num_heads, self.candidates = self._numbers

    def choose(self, rules: Rules) -> Ints:
        """The column of the regrets that ``rules`` take in each cell."""
        return prefill_head_tiles(rules, self.num_tokens, self.num_heads, self.candidates)
