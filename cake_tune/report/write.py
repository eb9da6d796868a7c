"""Write a run's report: measurements.csv, plots and report.md."""

from cake_tune._files import whole_file
from cake_tune.journal.run import RunDirectory
from cake_tune.report.findings import Findings, read_run
from cake_tune.report.markdown import render
from cake_tune.report.measurements import Measurements


def write_report(run: RunDirectory) -> Findings:
    """Write ``measurements.csv``, ``plots/*.png`` and ``report.md`` of ``run`` from its journal, run.json and table.

    Returns what it found, for ``summary``. Works on an unfinished journal and on one without a usable row, and says so.
    Raises ``JournalError`` when the directory is no run, ``TableError`` when its table is broken.
    """
    measurements = Measurements(run.read_info())
    findings = read_run(run, measurements.add)
    measurements.write(run.measurements)
    # Imported here: matplotlib takes half a second, which a summary need not pay.
    from cake_tune.report.plots import draw_all

    plots = draw_all(findings, run.plots)
    text = render(findings, plots)
    with whole_file(run.report) as file:
        file.write(text)
    return findings
