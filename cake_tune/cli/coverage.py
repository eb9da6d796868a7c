"""``cake-tune coverage``: what the kernels and the table have for a model, before it is served."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from cake_tune.cli.arguments import chosen
from cake_tune.cli.asked import DeviceOption, SmsOption, TableOption, asked_table


def coverage(
    model: Annotated[
        str, typer.Option("--model", "-m", help="A model card by name, or a YAML file of your own.", show_default=False)
    ],
    tp: Annotated[int, typer.Option("--tp", min=1, help="GPUs that share the model's heads.")] = 1,
    table: TableOption = None,
    num_sms: SmsOption = None,
    device: DeviceOption = None,
    form: Annotated[
        str, typer.Option("--format", metavar="text|csv|json", help="text, or one line per shape.")
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
    from cake_tune.coverage.words import Form, coverage_text
    from cake_tune.planner.backend import backend_of_sweep
    from cake_tune.sweep.words import counted

    shown = chosen("--format", form, get_args(Form))
    card = load_card(model)
    get_backend(backend)
    answers, sms = asked_table(table, device, num_sms, backend_of_sweep(backend))
    covered = cover(card, tp, answers, sms)
    typer.echo(coverage_text(covered, shown), nl=False)
    if write_spec is not None:
        gaps = len(covered.gaps())
        if gaps:
            write_spec.write_text(gap_spec(covered, backend), encoding="utf-8")
        done = (
            f"the sweep of {counted(gaps, 'shape')} on backend {backend}" if gaps else "not written: nothing to measure"
        )
        typer.echo(f"{write_spec}: {done}", err=shown != "text")
