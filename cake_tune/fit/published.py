"""The last step of a fit: the constants of a published table instead of fitted ones that explain the times no better.

What was measured leaves a range for each constant, of which a fit takes one value. Where a device follows a published
table, that table's are the ones meant; so the fit gives back exactly these.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit, Rules


def published_decode(rules: Rules) -> list[Rules]:
    """``rules`` with the splits, the decode head tiles, or both of each published table; least change first."""
    splits = [replace(rules, splitting=other.splitting) for other in _published()]
    tiles = [replace(rules, tile_bands=other.tile_bands) for other in _published()]
    both = [replace(rules, splitting=other.splitting, tile_bands=other.tile_bands) for other in _published()]
    return [*splits, *tiles, *both]


def published_prefill(rules: Rules) -> list[Rules]:
    """``rules`` with the prefill head tiles of each published table."""
    return [replace(rules, prefill_bands=other.prefill_bands) for other in _published()]


def published_limits() -> Iterator[tuple[DecodeLimit, ...]]:
    """The crossover of each published table."""
    yield from dict.fromkeys(rules.decode_max_tokens for rules in _published())


@cache
def _published() -> tuple[Rules, ...]:
    return tuple(table.rules for table in shipped_tables() if table.provenance.kind == "published")
