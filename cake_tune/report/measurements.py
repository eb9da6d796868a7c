"""``measurements.csv``: one row per measured plan, in an order that does not depend on the journal's."""

import csv
import io
from pathlib import Path

from cake_tune._files import whole_file
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.report.columns import COLUMNS, Cell, Value

_Written = str | int | float | None

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
        lines: list[list[_Written]] = []
        for row in sorted(record.rows, key=lambda row: row.plan):
            cell = Cell(self._info, record, row, best_us)
            if lines:
                cells = lines[0].copy()
                for place, value in _OF_PLAN:
                    cells[place] = _written(value(cell))
            else:
                cells = [_written(column.value(cell)) for column in COLUMNS]
            lines.append(cells)
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._blocks.append((order, text.getvalue()))

    def join(self, later: "Measurements") -> None:
        """Take in the rows that ``later`` took in."""
        self._blocks += later._blocks

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        with whole_file(path) as file:
            csv.writer(file, lineterminator="\n").writerow([column.name for column in COLUMNS])
            file.writelines(block for _, block in sorted(self._blocks))


def _written(value: Value) -> _Written:
    """Numbers to six significant digits, truth as true and false; the writer makes an empty field of None."""
    kind = type(value)
    if kind is float:
        return f"{value:.6g}"
    if kind is bool:
        return "true" if value else "false"
    return value
