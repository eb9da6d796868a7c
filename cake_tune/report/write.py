"""Write a run's report: measurements.csv, plots and report.md."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from cake_tune._files import whole_file
from cake_tune.journal.run import RunDirectory
from cake_tune.report.findings import Findings, read_run
from cake_tune.report.markdown import render
from cake_tune.report.measurements import Measurements, write_measurements

LARGE = 64 * 2**20
"""Bytes from which a journal is read twice, by two processes at once."""


def write_report(run: RunDirectory) -> Findings:
    """Write ``measurements.csv``, ``plots/*.png`` and ``report.md`` of ``run`` from its journal, run.json and table.

    Returns what it found, for ``summary``. Works on an unfinished journal and on one without a usable row, and says so.
    Raises ``JournalError`` when the directory is no run, ``TableError`` when its table is broken.
    """
    if run.journal.exists() and run.journal.stat().st_size >= LARGE:
        # On another core: a third of the work on a long journal is to write its rows out.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            written = pool.submit(write_measurements, run)
            findings = read_run(run)
            written.result()
    else:
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
