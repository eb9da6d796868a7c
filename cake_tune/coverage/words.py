"""A coverage as people and programs read it: a small table of text, CSV, or JSON lines."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Literal

from cake_tune.coverage.answers import Coverage, Layers
from cake_tune.planner.lookup import Source
from cake_tune.planner.shape import MAX_CHUNKS_PER_BLOCK
from cake_tune.sweep.words import counted

Form = Literal["text", "csv", "json"]

SOURCES: tuple[Source, ...] = ("measured", "rule", "extrapolated")
MEANING = {
    "measured": "timed on this very shape",
    "rule": "inside the range that was measured, or by the published rules of this GPU",
    "extrapolated": "outside that range, or from another GPU",
}
_COUNTS = ("chunks", *SOURCES)
COLUMNS = (
    "layers", "num_tokens", "num_heads", "topk", "extra_topk", "page_size", "extra_page_size", "chunks", "source",
    "kernel", "head_tiles", "num_splits", "chunks_per_block", "no_decode", "no_prefill",
)  # fmt: skip


def coverage_text(coverage: Coverage, form: Form) -> str:
    """The text of ``coverage``, with a newline at its end; csv and json have one line per shape."""
    if form == "text":
        return "\n".join(_lines(coverage)) + "\n"
    rows = [row for layers in coverage.layers for row in _rows(coverage, layers)]
    if form == "json":
        return "".join(json.dumps(row) + "\n" for row in rows)
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _lines(coverage: Coverage) -> Iterator[str]:
    card, tokens = coverage.card, coverage.card.num_tokens
    sizes = f"{len(tokens)} capture sizes, {tokens[0]} to {tokens[-1]} tokens" if tokens[1:] else f"T={tokens[0]}"
    yield f"{card.model}, tp {coverage.tp}: {coverage.heads} heads per GPU; {sizes}"
    if coverage.num_heads not in (0, coverage.heads):
        yield f"the kernels have no {coverage.heads} heads: engines pad to {coverage.num_heads}, as here"
    yield f"table: {coverage.table.label}"
    yield ""
    yield from _table([("layers", "top-k", "chunks", "decode", "prefill", *SOURCES), *map(_cells, coverage.layers)])
    yield ""
    sources = coverage.sources
    counts = f"{sources['measured']} measured, {sources['rule']} by rule, {sources['extrapolated']} extrapolated"
    yield f"{counted(sources.total(), 'shape')}: {counts}"
    yield from (f"  {source}: {MEANING[source]}" for source in SOURCES if sources[source])
    if coverage.table.provenance.kind == "published":
        yield "the rules are those that FlashInfer publishes for its own kernels; nothing of them was measured here"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as they need; texts to the left, counts to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if title in _COUNTS else cell.ljust(width)
            for title, cell, width in zip(rows[0], row, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _cells(layers: Layers) -> tuple[str, ...]:
    topk, extra_topk = layers.attention.topk, layers.attention.extra_topk
    counts = (str(layers.sources[source] or "-") for source in SOURCES)
    prefill = f"no: {layers.no_prefill}" if layers.no_prefill else "yes"
    both = f"{topk}+{extra_topk}" if extra_topk else str(topk)
    return layers.attention.layers, both, str(layers.chunks), _decode(layers), prefill, *counts


def _decode(layers: Layers) -> str:
    if layers.no_decode:
        return f"no: {layers.no_decode}"
    fewest = -(-layers.chunks // MAX_CHUNKS_PER_BLOCK)
    return "yes" if fewest == 1 else f"{fewest}+ splits"


def _rows(coverage: Coverage, layers: Layers) -> Iterator[dict[str, object]]:
    common = {
        "layers": layers.attention.layers,
        "num_heads": coverage.num_heads or coverage.heads,
        **layers.attention.model_dump(exclude={"layers"}),
        "chunks": layers.chunks,
        "no_decode": layers.no_decode,
        "no_prefill": layers.no_prefill,
    }
    if layers.no_decode:
        yield from ({**common, "num_tokens": count, "source": "unsupported"} for count in coverage.card.num_tokens)
    for shape, decision in layers.answers:
        plan = decision.plan
        yield {
            **common,
            "num_tokens": shape.num_tokens,
            "source": decision.source,
            "kernel": plan.kernel,
            "head_tiles": plan.head_tiles,
            "num_splits": plan.num_splits,
            "chunks_per_block": plan.chunks_per_block,
        }
