"""A table as one Python module that needs nothing else: FlashInfer's planner functions, and why they decide so."""

from cake_tune.export.conditions import (
    head_lines,
    if_lines,
    kernel_branches,
    prefill_branches,
    share_text,
    tile_branches,
)
from cake_tune.export.costs import constants, cost_lines
from cake_tune.export.evidence import evidence_lines
from cake_tune.export.guides import guides_of
from cake_tune.planner.rules import Share, Splitting
from cake_tune.planner.shape import (
    CHUNK,
    DECODE_TWO_TILE_HEADS,
    HEAD_COUNTS,
    HEADS_PER_TILE,
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
)
from cake_tune.planner.table import PlannerTable


def planner_source(table: PlannerTable) -> str:
    """Python source of the planner of ``table``: lint-clean, in the format of ``ruff format``, standard library only.

    Its functions have the names, keywords and answers of ``cake_tune.planner``'s under this table, for every
    ``num_sms``, and raise ``ValueError`` for what cannot run. Build options of plans are not part of them.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cake_tune.export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    rules, splitting = table.rules, table.rules.splitting
    tiles, kernels, prefill = (
        "\n".join(if_lines(branches))
        for branches in (
            tile_branches(rules.tile_bands),
            kernel_branches(rules.decode_max_tokens),
            prefill_branches(rules.prefill_bands),
        )
    )
    guides = guides_of(table)
    row_by_row = guides.model is None or guides.model.order == "row_by_row"
    needed = {"ceil": not row_by_row, "inf": guides.model is not None, "log": guides.nearest}
    return environment.get_template("planner.py.j2").render(
        table=table,
        measured=table.provenance.kind == "measured",
        evidence="\n".join(evidence_lines(table)),
        chunk=CHUNK,
        tile_heads=HEADS_PER_TILE,
        max_chunks=MAX_CHUNKS_PER_BLOCK,
        head_counts=HEAD_COUNTS,
        two_tile_heads=DECODE_TWO_TILE_HEADS,
        prefill_tiles=PREFILL_TILES,
        guides=guides,
        math=", ".join(name for name, needs in needed.items() if needs),
        row_by_row=row_by_row,
        pairs=guides.model is not None and guides.model.pair_us is not None,
        costs="\n".join(cost_lines(guides.model)) if guides.model else "",
        constants=constants(guides.model) if guides.model else (),
        tiles=tiles,
        splitting=splitting,
        stream_cap=_stream_cap(splitting),
        share=share_text,
        stop=_stop_lines(splitting),
        tail=_tail_lines(splitting),
        kernels=kernels,
        prefill=prefill,
    )


def _stream_cap(splitting: Splitting) -> Share | None:
    """The cap, unless the grid cap already implies it: a grid has a block for every token at least."""
    grid, stream = splitting.grid_cap, splitting.stream_cap
    implied = stream.numerator * grid.denominator >= grid.numerator * stream.denominator
    return None if implied else stream


def _stop_lines(splitting: Splitting) -> str:
    """The condition that ends the search for more splits."""
    conditions = ["wanted > max_splits", "ctas * wanted > grid_cap"]
    if _stream_cap(splitting) is not None:
        conditions.append("num_tokens * wanted > stream_cap")
    least = "min_cpb" if splitting.min_cpb != splitting.min_cpb_alone else str(splitting.min_cpb)
    if least != "1":
        conditions.append(f"-(-chunks // wanted) < {least}")
    return "\n".join(head_lines(conditions, "or", 12))


def _tail_lines(splitting: Splitting) -> str:
    """The condition that splits a full grid; empty where none does."""
    tail = splitting.tail
    if tail is None:
        return ""
    conditions = ["splits == fewest"]
    if tail.num_splits > 2:
        conditions.append(f"max_splits >= {tail.num_splits}")
    if tail.min_chunks > splitting.whole_chunks + 1:
        conditions.append(f"chunks >= {tail.min_chunks}")
    conditions.append(f"ctas >= {share_text(tail.min_blocks)}")
    conditions.append(f"(last_wave == 0 or last_wave >= {share_text(tail.min_last_wave)})")
    return "\n".join(head_lines(conditions, "and", 8))
