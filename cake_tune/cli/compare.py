"""``cake-tune compare``: whether a later run is a regression."""

from pathlib import Path
from typing import Annotated

import typer

from cake_tune.cli.opened_run import opened_run
from cake_tune.errors import RegressionError


def compare(
    before: Annotated[Path, typer.Argument(metavar="RUN_A", help="The run to hold to.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run to judge.", show_default=False)],
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            min=0,
            help="Per cent that count as slower. [default: the widest tie band; for a single plan at least 2 where the "
            "GPUs that timed it differ or are unknown]",
        ),
    ] = None,
    any_kernel: Annotated[bool, typer.Option("--any-kernel", help="Compare kernels of different identities.")] = False,
) -> None:
    """Hold run B to run A; exit code 3 if a plan became slower or the table chooses worse."""
    from cake_tune.study.compare import compare_runs
    from cake_tune.study.words import comparison_lines

    with opened_run(before) as first, opened_run(after) as second:
        found = compare_runs(first, second, margin=None if margin is None else margin / 100, any_kernel=any_kernel)
    typer.echo("\n".join(comparison_lines(found)))
    if found.regressions:
        raise RegressionError(f"{after}: against {before}, {'; '.join(found.regressions)}")
