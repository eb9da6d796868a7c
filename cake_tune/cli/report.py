"""``cake-tune report``: CSV, plots and report.md of a run."""

import typer

from cake_tune.cli.arguments import RunArgument


def report(run: RunArgument) -> None:
    """Write measurements.csv, plots and report.md of a run, and print its summary."""
    from cake_tune.journal.run import RunDirectory
    from cake_tune.report import summary, write_report

    directory = RunDirectory(run)
    write_report(directory)
    typer.echo("\n".join(summary(directory)))
