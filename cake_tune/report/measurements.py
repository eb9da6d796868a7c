"""``measurements.csv``: one row per measured plan, in an order that does not depend on the journal's."""

import csv
import io
from pathlib import Path

from cake_tune._files import whole_file
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.report.columns import COLUMNS, Cell, Value

_OF_PLAN = [(place, column.value) for place, column in enumerate(COLUMNS) if not column.of_point]


class Measurements:
    """Collects records as text while a journal streams by, then writes them sorted by shape and plan."""

    def __init__(self, info: RunInfo) -> None:
        self._info = info
        self._blocks: list[tuple[tuple[object, ...], str]] = []

    def add(self, record: PointRecord) -> None:
        """Take in every row of ``record``."""
        shape = record.shape
        order = (shape.num_heads, shape.topk, shape.extra_topk, shape.num_tokens, shape, record.key)
        times = [row.median_us for row in record.rows if row.median_us is not None]
        best_us = min(times, default=None)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        shared: list[str] | None = None
        for row in sorted(record.rows, key=lambda row: row.plan):
            cell = Cell(self._info, record, row, best_us)
            if shared is None:
                shared = [_text(column.value(cell)) if column.of_point else "" for column in COLUMNS]
            cells = shared.copy()
            for place, value in _OF_PLAN:
                cells[place] = _text(value(cell))
            writer.writerow(cells)
        self._blocks.append((order, text.getvalue()))

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        with whole_file(path) as file:
            csv.writer(file, lineterminator="\n").writerow([column.name for column in COLUMNS])
            file.writelines(block for _, block in sorted(self._blocks))


def write_measurements(run: RunDirectory) -> None:
    """Write the ``measurements.csv`` of ``run`` from its journal."""
    measurements = Measurements(run.read_info())
    for record in run.read_records():
        measurements.add(record)
    measurements.write(run.measurements)


def _text(value: Value) -> str:
    """Numbers to six significant digits, truth as true and false, nothing as an empty field."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
