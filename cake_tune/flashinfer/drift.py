"""What an installed FlashInfer does otherwise than this project: signatures, limits, and its planners' decisions.

The planners here answer as FlashInfer's do until a sweep says better, and the backend calls its kernels by these
signatures. Both were written for one release; each function below lists where another one differs.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cake_tune.flashinfer.isolated import PREFIX, load_planners
from cake_tune.flashinfer.package import Package
from cake_tune.planner.shape import (
    BYTES_PER_TOKEN,
    CHUNK,
    DECODE_TWO_TILE_HEADS,
    HEAD_COUNTS,
    HEADS_PER_TILE,
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
    QUERY_DIM,
)
from cake_tune.planner.table import FAMILY

SHOWN = 3
"""Shapes that are shown of those on which a planner decides otherwise."""

LIMITS: dict[str, object] = {
    "family": FAMILY,
    "head_dim": QUERY_DIM,
    "value_dim": QUERY_DIM,
    "bytes_per_token": BYTES_PER_TOKEN,
    "candidates_per_chunk": CHUNK,
    "heads_per_block": HEADS_PER_TILE,
    "max_chunks_per_block": MAX_CHUNKS_PER_BLOCK,
    "head_counts": list(HEAD_COUNTS),
    "two_tile_head_counts": list(DECODE_TWO_TILE_HEADS),
    "prefill_head_counts": list(PREFILL_TILES),
    "prefill_head_tiles": {str(heads): list(tiles) for heads, tiles in PREFILL_TILES.items()},
    "prefill_max_chunks": MAX_CHUNKS_PER_BLOCK,
}
"""What the kernels can run, under the names of FlashInfer's manifest."""

Question = Mapping[str, int]


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One thing that is not the same on both sides; ``where`` says on which shapes, "" if that means nothing."""

    name: str
    ours: str
    theirs: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.name}: ours {self.ours}, theirs {self.theirs}{f' ({self.where})' if self.where else ''}"


def signature_differences(
    package: Package, ours: Mapping[str, Callable[..., Any]], *, prefix: str = PREFIX
) -> list[Difference]:
    """Functions by name whose parameters differ, or that only one side has among the names with ``prefix``."""
    names = package.sources.exported(prefix)
    found = [Difference(name, "none", _text(package.sources.signature(name))) for name in sorted(names - ours.keys())]
    for name, function in ours.items():
        if name not in package.sources.exported(name):
            found.append(Difference(name, _text(inspect.signature(function)), "none"))
        else:
            found += compare_signatures(name, inspect.signature(function), package.sources.signature(name))
    return found


def compare_signatures(name: str, ours: inspect.Signature, theirs: inspect.Signature) -> list[Difference]:
    """The difference between two signatures, if there is one: names, kinds, order and defaults, no annotations."""
    told, heard = _text(ours), _text(theirs)
    return [] if told == heard else [Difference(name, told, heard)]


def limit_differences(package: Package) -> list[Difference]:
    """What the manifest says of the kernels that this project takes for granted otherwise."""
    manifest = package.manifest
    return [
        Difference(name, repr(ours), repr(manifest.get(name)))
        for name, ours in LIMITS.items()
        if manifest.get(name) != ours
    ]


def decision_differences(
    package: Package, ours: Mapping[str, Callable[..., Any]], questions: Iterable[Question]
) -> list[Difference]:
    """One difference per planner of ``ours`` that decides otherwise on some of ``questions``, with the first shapes.

    ``plan_splits`` is asked with the head tiles that ours plans. That both refuse a shape is no difference.
    """
    theirs = load_planners(package, list(ours))
    tiles_of = ours.get(f"{PREFIX}plan_head_tiles")
    differing: dict[str, list[tuple[Question, object, object]]] = {name: [] for name in ours}
    asked = 0
    for question in questions:
        asked += 1
        for name, function in ours.items():
            more = {}
            if name.endswith("plan_splits") and tiles_of is not None:
                more["head_tiles"] = tiles_of(**question)
            told, heard = _answer(function, question, more), _answer(theirs[name], question, more)
            if told != heard:
                differing[name].append((question, told, heard))
    return [_decided(name, found, asked) for name, found in differing.items() if found]


def _decided(name: str, found: list[tuple[Question, object, object]], asked: int) -> Difference:
    shapes = "; ".join(_shape(question) for question, _, _ in found[:SHOWN])
    told = ", ".join(str(ours) for _, ours, _ in found[:SHOWN])
    heard = ", ".join(str(theirs) for _, _, theirs in found[:SHOWN])
    return Difference(name, told, heard, f"{len(found)} of {asked} shapes, first {shapes}")


def _answer(function: Callable[..., Any], question: Question, more: Question) -> object:
    try:
        return function(**question, **more)
    except ValueError:
        return "refused"


def _shape(question: Question) -> str:
    return " ".join(f"{name}={value}" for name, value in question.items())


def _text(signature: inspect.Signature) -> str:
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(bare))
