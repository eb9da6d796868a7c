"""Write a run's report: measurements.csv, plots and report.md."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from cake_tune._files import whole_file
from cake_tune.journal.run import RunDirectory
from cake_tune.journal.second import begun, second_process
from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings, gather, is_stale
from cake_tune.report.markdown import render
from cake_tune.report.measurements import Measurements


def write_report(run: RunDirectory) -> Findings:
    """Write ``measurements.csv``, ``plots/*.png`` and ``report.md`` of ``run`` from its journal, run.json and table.

    Returns what it found, for ``summary``. Works on an unfinished journal and on one without a usable row, and says so.
    Raises ``JournalError`` when the directory is no run, ``TableError`` when its table is broken.
    """
    measurements = Measurements(run.read_info())
    with second_process(run) as second:
        findings = gather(run, measurements, second=second)
        # Drawing takes as long as the fit that tells whether the table is stale.
        drawn = begun(second, partial(_draw, _without_rounds(findings), run.plots))
        measurements.write(run.measurements)
        findings.stale = is_stale(findings)
        plots = drawn()
    text = render(findings, plots)
    with whole_file(run.report) as file:
        file.write(text)
    return findings


def _draw(findings: Findings, directory: Path) -> list[Drawn]:
    # Imported here: matplotlib takes half a second, which a summary need not pay.
    from cake_tune.report.plots import draw_all

    return draw_all(findings, directory)


def _without_rounds(findings: Findings) -> Findings:
    """``findings`` without what no plot shows and most of the bytes are."""
    if findings.samples is None:
        return findings
    return replace(findings, samples=replace(findings.samples, visits=[], confirm=[]))
