"""``cake-tune fit``: what a run's journal decides, without writing anything."""

import typer

from cake_tune.cli.arguments import RunArgument
from cake_tune.cli.opened_run import opened_run, tell_partial


def fit(run: RunArgument) -> None:
    """Fit a run's journal and print crossovers, moved constants, exceptions and regret; writes nothing."""
    from cake_tune.report import fit_run, summary_lines

    with opened_run(run) as directory:
        findings = fit_run(directory)
        typer.echo("\n".join(summary_lines(findings)))
        tell_partial(run, findings.info, findings.spec_points)
