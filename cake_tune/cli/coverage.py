"""``cake-tune coverage``: what the kernels and the table have for a model, before it is served."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def coverage(
    model: Annotated[
        str, typer.Option("--model", "-m", help="A model card by name, or a YAML file of your own.", show_default=False)
    ],
    tp: Annotated[int, typer.Option("--tp", min=1, help="GPUs that share the model's heads.")] = 1,
    table: Annotated[
        Path | None, typer.Option("--table", help="Planner table to ask. [default: the one in force]")
    ] = None,
    num_sms: Annotated[int | None, typer.Option("--num-sms", help="Multiprocessors of the GPU served on.")] = None,
    form: Annotated[
        Literal["text", "csv", "json"], typer.Option("--format", help="text, or one line per shape.")
    ] = "text",
    write_spec: Annotated[
        Path | None, typer.Option("--write-spec", metavar="FILE", help="Write the sweep of what is not measured.")
    ] = None,
    backend: Annotated[str, typer.Option("--backend", "-b", help="Backend of that sweep; its tables answer.")] = "cuda",
) -> None:
    """Say which shapes of a model the kernels run, and which of them the table has measured, rules or extrapolates."""
    from cake_tune.backends import get_backend
    from cake_tune.coverage.answers import cover
    from cake_tune.coverage.gaps import gap_spec
    from cake_tune.coverage.load import load_card
    from cake_tune.coverage.words import coverage_text
    from cake_tune.planner.backend import backend_of_sweep
    from cake_tune.planner.registry import table_for, use_table
    from cake_tune.sweep.words import counted

    card = load_card(model)
    get_backend(backend)
    with use_table(table):
        answers, _ = table_for(None, num_sms, backend_of_sweep(backend))
    covered = cover(card, tp, answers, num_sms)
    typer.echo(coverage_text(covered, form), nl=False)
    if write_spec is not None:
        gaps = len(covered.gaps())
        if gaps:
            write_spec.write_text(gap_spec(covered, backend), encoding="utf-8")
        done = (
            f"the sweep of {counted(gaps, 'shape')} on backend {backend}" if gaps else "not written: nothing to measure"
        )
        typer.echo(f"{write_spec}: {done}", err=form != "text")
