"""A quickstart of the real op as measured on two cores (``make sweep``): splits win at one token and lose at many."""

from pathlib import Path

from cake_tune.fit.run import check_table
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.lookup import decide
from cake_tune.planner.table import load_table

RUN = RunDirectory(Path(__file__).parents[1] / "data" / "quickstart-run")


def best_times(num_tokens: int, num_heads: int, topk: int) -> tuple[float, float]:
    """Microseconds of the best unsplit and the best split decode plan of a shape."""
    shape = (num_tokens, num_heads, topk)
    rows = [
        row
        for record in RUN.read_records()
        if (record.shape.num_tokens, record.shape.num_heads, record.shape.topk) == shape
        for row in record.rows
        if row.plan.kernel == "decode" and row.median_us is not None
    ]
    unsplit = min(row.median_us for row in rows if row.plan.num_splits == 1)
    return unsplit, min(row.median_us for row in rows if row.plan.num_splits > 1)


def test_its_table_is_what_its_journal_gives():
    check_table(RUN, RUN.table)


def test_splits_win_at_one_token_and_lose_at_many():
    for num_heads, many in ((16, 16), (32, 8)):
        unsplit, split = best_times(1, num_heads, 1024)
        assert split < unsplit * (1 - RUN.read_info().tie_band)
        unsplit, split = best_times(many, num_heads, 1024)
        assert split > unsplit * (1 + RUN.read_info().tie_band)


def test_the_emitted_thresholds_show_it():
    """Not as exceptions alone: the constants themselves split a lone block of many chunks, and a fuller grid never."""
    table = load_table(RUN.table)
    rules, sms = table.rules, table.device.num_sms
    assert rules.splits(1, 16, 16, sms, max_splits=16, head_tiles=1) == (2, 8)
    assert rules.splits(2, 16, 16, sms, max_splits=16, head_tiles=1) == (1, 16)
    assert decide(table, num_tokens=1, num_heads=16, topk=1024).plan.num_splits == 2


def test_the_table_beats_what_was_in_force():
    certificate = load_table(RUN.table).certificate
    assert certificate is not None
    assert certificate.mean < 0.02
