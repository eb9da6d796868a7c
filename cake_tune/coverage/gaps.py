"""The sweep that fills gaps: a spec whose points are just the shapes that a table has not measured."""

import re
import textwrap
from collections.abc import Iterable
from itertools import product

from cake_tune.coverage.answers import Coverage
from cake_tune.planner.shape import Shape
from cake_tune.sweep.words import counted

WIDTH = 100

AXES = ("topk", "extra_topk", "page_size", "extra_page_size")
"""What tells the layers of a model apart, in the order of a spec."""

_USUAL = {"extra_topk": [0], "page_size": [64], "extra_page_size": [64]}
"""What a spec that leaves an axis out has there."""

Kind = tuple[int, ...]
"""The values of ``AXES``; without an extra cache its page size means nothing, and is that of a spec left as it is."""


def gap_spec(coverage: Coverage, backend: str) -> str:
    """The text of a sweep spec on ``backend`` for ``coverage.gaps()``, of which there is one at least."""
    gaps = coverage.gaps()
    kinds: dict[Kind, set[int]] = {}
    for shape in gaps:
        kinds.setdefault(_kind(shape), set()).add(shape.num_tokens)
    tokens = sorted({shape.num_tokens for shape in gaps})
    axes = {name: sorted({kind[i] for kind in kinds}) for i, name in enumerate(AXES)}
    name = re.sub(r"[^a-z0-9]+", "-", f"{coverage.card.model} tp{coverage.tp}".lower()).strip("-")
    unmeasured = f"{counted(len(gaps), 'shape')} of {coverage.card.model}, tp {coverage.tp}, that"
    label = "".join(each for each in coverage.table.label if each.isprintable())
    first = gaps[0]
    flags = [flag for flag in ("lengths", "sink") if getattr(first, flag)]
    lines = [
        *_wrapped(f"{unmeasured} have no time in the table {label}.", "# ", "# "),
        "# Written by cake-tune coverage; cake-tune check counts its plans, cake-tune sweep measures them.",
        "version: 1",
        f"name: gaps-{name[:59]}",
        f"backend: {backend}",
        "",
        "shapes:",
        *_wrapped(f"[{', '.join(map(str, tokens))}]", "  num_tokens: ", "    "),
        f"  num_heads: {first.num_heads}",
        *(f"  {name}: {_values(values)}" for name, values in axes.items() if values != _USUAL.get(name)),
        *(f"  {flag}: true" for flag in flags),
    ]
    constraints = list(_constraints(kinds, axes, set(tokens)))
    if constraints:
        lines += ["", "# Of all combinations above, only those of the model's layers, and only what is not measured."]
        lines.append("constraint:")
        for text in constraints:
            lines += ["  - >-", *_wrapped(text, "    ", "    ")]
    return "\n".join(lines) + "\n"


def _kind(shape: Shape) -> Kind:
    extra_page = shape.extra_page_size if shape.extra_topk else _USUAL["extra_page_size"][0]
    return shape.topk, shape.extra_topk, shape.page_size, extra_page


def _constraints(kinds: dict[Kind, set[int]], axes: dict[str, list[int]], tokens: set[int]) -> Iterable[str]:
    every = {kind for kind in product(*axes.values()) if kind[1] or kind[3] == 64}
    if every - set(kinds):
        yield " or ".join(f"({_test(kind, axes)})" for kind in kinds)
    for kind, held in kinds.items():
        if held != tokens:
            yield f"not ({_test(kind, axes)}) or num_tokens in [{', '.join(map(str, sorted(held)))}]"


def _test(kind: Kind, axes: dict[str, list[int]]) -> str:
    """That a shape is of this kind: what all kinds share needs no word."""
    told = [
        f"{name} == {value}"
        for (name, values), value in zip(axes.items(), kind, strict=True)
        if values[1:] and (name != "extra_page_size" or kind[1])
    ]
    return " and ".join(told) or "topk >= 1"


def _values(values: list[int]) -> str:
    return str(values if values[1:] else values[0])


def _wrapped(text: str, first: str, margin: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=margin, break_on_hyphens=False, break_long_words=False
    )
