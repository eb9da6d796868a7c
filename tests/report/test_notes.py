"""What two readers took in of the halves of a journal, joined, is what one takes in of all of it."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from cake_tune.fit.collect import Collector
from cake_tune.fit.samples import Samples
from cake_tune.journal.record import PlanRow
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import rival_plan
from cake_tune.report.measurements import Measurements
from cake_tune.report.notes import Notes

RUN = RunDirectory(Path(__file__).parents[1] / "data" / "report-run")


@pytest.fixture(scope="module")
def records():
    """The run's records, from two GPUs, every third with a rival: slower, as fast, or much faster."""
    found = []
    for number, record in enumerate(RUN.read_records()):
        times = [row.median_us for row in record.rows if row.status in ("ok", "tied") and row.median_us]
        rows = record.rows
        if number % 3 == 0 and times:
            rival = rival_plan(record.shape, f"other-{number % 2}")
            rows = (*rows, PlanRow(rival, "ok", min(times) * (1.5, 1.0, 0.25)[number % 9 // 3]))
        found.append(replace(record, rows=rows, gpu=f"GPU-{number % 2}"))
    return found


def filled(taker, records):
    for record in records:
        taker.add(record)
    return taker


PLACES = [0, 1, 7, 20, -1]


@pytest.mark.parametrize("place", PLACES)
def test_joined_notes(records, place):
    whole, joined = filled(Notes(), records), filled(Notes(), records[:place])
    joined.join(filled(Notes(), records[place:]))
    assert joined == whole
    assert list(joined.row_statuses) == list(whole.row_statuses), "in the order in which they came up"
    assert len(whole.rivals) == 2 and whole.failures and len(whole.gpus) == 2


@pytest.mark.parametrize("place", PLACES)
def test_joined_measurements(records, place, tmp_path):
    info = RUN.read_info()
    whole, joined = filled(Measurements(info), records), filled(Measurements(info), records[:place])
    joined.join(filled(Measurements(info), records[place:]))
    for name, each in (("whole", whole), ("joined", joined)):
        each.write(tmp_path / name)
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("place", PLACES)
def test_joined_samples(records, place):
    whole, joined = filled(Collector(), records).samples(), filled(Collector(), records[:place])
    joined.join(filled(Collector(), records[place:]))
    assert all(same(getattr(joined.samples(), one.name), getattr(whole, one.name)) for one in fields(Samples))


def same(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other, equal_nan=True) if isinstance(one, np.ndarray) else one == other
