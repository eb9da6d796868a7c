"""``cake-tune fit``: what a run's journal decides, without writing anything."""

import typer

from cake_tune.cli.arguments import RunArgument


def fit(run: RunArgument) -> None:
    """Fit a run's journal and print crossovers, moved constants, exceptions and regret; writes nothing."""
    from cake_tune.journal.run import RunDirectory
    from cake_tune.report import fit_run, summary_lines

    directory = RunDirectory(run)
    typer.echo("\n".join(summary_lines(directory, fit_run(directory))))
