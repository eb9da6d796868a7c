from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import crossovers
from cake_tune.journal.journal import read_journal
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit
from cake_tune.planner.shape import Plan
from cake_tune.report.findings import Findings
from cake_tune.report.plots import latency, splits, style

GOLDEN = RunDirectory(Path(__file__).parent.parent / "data" / "report-run")
INFO = GOLDEN.read_info()
IN_FORCE = shipped_tables()[0]
DECODE, PREFILL = Plan("decode", 1, 1, 8), Plan("prefill", 1, 1, 8)
RECORDS = [record for record in read_journal(GOLDEN.journal) if record.rows]


@pytest.fixture
def figure_of(monkeypatch, tmp_path):
    """Draws records and gives the last figure that was saved."""
    saved = []
    save = style.save
    monkeypatch.setattr(style, "save", lambda drawn, path: saved.append(drawn) or save(drawn, path))

    def draw(records, limit=None, draw_all=latency.draw_latencies):
        rules = replace(IN_FORCE.rules, decode_max_tokens=(DecodeLimit(num_tokens=limit),))
        samples = collect(records)
        held = replace(IN_FORCE, rules=rules)
        findings = Findings(INFO, IN_FORCE, samples=samples, crossovers=crossovers(samples, held))
        list(draw_all(findings, samples, tmp_path))
        return saved[-1]

    return draw


def timed(record, **times):
    """``record`` with one plan per kernel in ``times``, and these medians."""
    plans = {"decode": DECODE, "prefill": PREFILL}
    rows = [
        replace(record.rows[0], plan=plans[kernel], status="ok", median_us=us, visits=(us,) * 6, confirm=(us,) * 7)
        for kernel, us in times.items()
    ]
    return replace(record, rows=tuple(rows), best=None, tied=(), incumbent=None)


def sixteen_heads(**times):
    return [timed(r, **times) for r in RECORDS if (r.shape.num_heads, r.shape.topk) == (16, 512)]


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_legend_lists_what_is_drawn_and_no_more(figure_of):
    assert labels(figure_of(sixteen_heads(prefill=5.0))) == ["best prefill plan"]
    assert labels(figure_of(sixteen_heads(decode=5.0))) == ["best decode plan"]
    crossed = [r for r in RECORDS if (r.shape.num_heads, r.shape.topk) == (16, 512)]
    assert labels(figure_of(crossed)) == [
        "best decode plan",
        "best prefill plan",
        "every other plan",
        "crossover",
        "either may be faster (95 %)",
    ]


@pytest.mark.parametrize("heads", [16, 64])
def test_the_legend_lies_inside_the_figure(figure_of, heads):
    figure = figure_of([record for record in RECORDS if record.shape.num_heads == heads])
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("times", "limit", "said"),
    [
        ({"decode": 5.0, "prefill": 9.0}, 500, "decode at every measured T"),
        ({"decode": 5.0, "prefill": 9.0}, None, "decode at every measured T"),
        ({"decode": 9.0, "prefill": 5.0}, 0, "prefill at every measured T"),
    ],
)
def test_one_kernel_everywhere_is_said_without_line_or_band(figure_of, times, limit, said):
    figure = figure_of(sixteen_heads(**times), limit)
    assert texts(figure) == [said]
    assert labels(figure) == ["best decode plan", "best prefill plan"]
    assert not figure.axes[0].patches


def test_where_neither_kernel_is_surely_faster_no_panel_is_shaded(figure_of):
    (record,) = (each for each in sixteen_heads(decode=5.0, prefill=5.0) if each.shape.num_tokens == 4)
    record = replace(record, rows=tuple(replace(row, visits=(), confirm=()) for row in record.rows))
    figure = figure_of([record], 0)
    assert texts(figure) == ["prefill at T=4 (neither surely faster)"]
    assert not figure.axes[0].patches


@pytest.mark.parametrize(("prefill", "marked"), [(4.99, False), (4.9, True)])
def test_splits_mark_prefill_only_where_it_is_faster_beyond_the_tie_band(figure_of, prefill, marked):
    figure = figure_of(sixteen_heads(decode=5.0, prefill=prefill), draw_all=splits.draw_splits)
    assert bool(figure.legends) == marked
    assert bool(figure.axes[0].lines) == marked
