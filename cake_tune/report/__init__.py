"""What people read: measurements.csv, plots, report.md, and the lines that end a sweep."""

from cake_tune.report.findings import fit_run
from cake_tune.report.summary import summary, summary_lines
from cake_tune.report.write import write_report

__all__ = ["fit_run", "summary", "summary_lines", "write_report"]
