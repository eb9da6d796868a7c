"""``cake-tune report``: CSV, plots and report.md of a run."""

import typer

from cake_tune.cli.arguments import RunArgument
from cake_tune.cli.opened_run import opened_run


def report(run: RunArgument) -> None:
    """Write measurements.csv, plots and report.md of a run, and print its summary."""
    from cake_tune.report import summary, write_report

    with opened_run(run) as directory:
        typer.echo("\n".join(summary(directory, write_report(directory))))
