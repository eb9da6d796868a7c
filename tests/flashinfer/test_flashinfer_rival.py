"""A rival is measured beside the plans of the family, once per shape, and no table ever answers with it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.backends import check_options, get_backend
from cake_tune.errors import ContractError, TableError, UsageError
from cake_tune.fit.collect import collect
from cake_tune.journal.codec import record_from_json, record_to_json
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.planner import registry
from cake_tune.planner.shape import Plan, Shape, check_plan, every_plan, rival_of, rival_plan
from cake_tune.planner.table import Override, table_from_json, table_to_json
from cake_tune.report.findings import read_run
from cake_tune.report.markdown import render
from cake_tune.report.rivals import note_rivals
from cake_tune.spec import Point, parse_spec
from cake_tune.sweep.provenance import plan_in_force

RUN = Path(__file__).parents[1] / "data" / "report-run"

SPEC = """
version: 1
backend: flashinfer
shapes: {num_tokens: [1, 4], num_heads: [8, 16], topk: [128, 2048]}
plans: {rivals: sparse%s}
"""


def points(more=""):
    return parse_spec((SPEC % more).encode(), "spec.yaml").points()


@pytest.mark.parametrize("more", ["", ", splits: [2, 4]", ", head_tiles: 1"])
def test_a_spec_adds_one_plan_to_every_point(more):
    for point in points(more):
        assert [plan for plan in point.plans if rival_of(plan)] == [rival_plan(point.shape, "sparse")]
        assert len(point.plans) > 1
        assert len(set(point.plans)) == len(point.plans)


def test_limits_on_the_plans_are_not_the_rivals():
    spec = (SPEC % ", kernels: prefill").replace("[8, 16]", "32").replace("[128, 2048]", "128")
    for point in parse_spec(f"{spec}constraint: head_tiles == 2".encode(), "spec.yaml").points():
        assert [plan.kernel for plan in point.plans if rival_of(plan) is None] == ["prefill"]
        assert rival_plan(point.shape, "sparse").head_tiles == 1
        assert point.plans[-1] == rival_plan(point.shape, "sparse")


def test_a_backend_without_the_rival_refuses_it_before_anything_is_measured():
    plans = [plan for point in points() for plan in point.plans]
    check_options(get_backend("flashinfer"), plans)
    for name in ("cpu", "simulated", "cuda"):
        with pytest.raises(UsageError, match="got rival=sparse"):
            check_options(get_backend(name), plans)


def test_a_rival_is_named_in_texts_and_comes_back_from_a_journal():
    plan = rival_plan(Shape(4, 16, 2048), "sparse")
    assert str(plan) == "decode/t1/s2x16/rival=sparse"
    record = PointRecord("a-b", Shape(4, 16, 2048), "ok", (PlanRow(plan, "ok", 3.0),), best=plan)
    assert record_from_json(record_to_json(record)) == record


def test_no_table_holds_a_rival():
    rival = rival_plan(Shape(1, 16, 128), "sparse")
    with pytest.raises(ContractError, match="expected a plan of the family, got the rival decode/t1/s1x2/rival=sparse"):
        check_plan(rival, 16, 2)
    for parts in ({"plan": rival, "ties": ()}, {"plan": Plan("decode", 1, 1, 2), "ties": (rival,)}):
        with pytest.raises(TableError, match="got the rival"):
            Override(16, 128, 0, 1, 1, regret=0.1, **parts)


def test_a_table_file_with_a_rival_is_refused():
    table, _ = registry.table_for()
    exception = Override(16, 128, 0, 1, 1, Plan("decode", 1, 1, 2, (("qk", "nvfp4"),)), regret=0.1)
    text = table_to_json(replace(table, exceptions=(exception,)))
    assert table_from_json(text).exceptions == (exception,)
    for part in text["exceptions"]:
        part["plan"]["options"] = [["rival", "sparse"]]
    with pytest.raises(TableError, match="got the rival"):
        table_from_json(text)


def test_the_fit_reads_no_time_of_a_rival_be_it_the_fastest():
    shape = Shape(1, 16, 128)
    rival, *plans = rival_plan(shape, "sparse"), *every_plan(shape)
    rows = (PlanRow(rival, "ok", 1.0), *(PlanRow(plan, "ok", 2.0 + place) for place, plan in enumerate(plans)))
    samples = collect([PointRecord("a-b", shape, "ok", rows, best=rival, tied=(rival,), tie_band=0.02)])
    assert samples.plans == tuple(sorted(plans))
    best, _ = samples.best()
    assert samples.plans[samples.plan[best[0]]] == plans[0]
    assert not samples.chosen.any()


def test_the_plan_in_force_is_asked_as_if_no_rival_were_there():
    table, _ = registry.table_for()
    shape = Shape(1, 16, 128)
    prefill = [plan for plan in every_plan(shape) if plan.kernel == "prefill"]
    alone = plan_in_force(table, table.device, Point(shape, tuple(prefill)))
    beside = plan_in_force(table, table.device, Point(shape, (*prefill, rival_plan(shape, "sparse"))))
    assert alone is not None
    assert beside == alone


def test_a_report_says_how_a_rival_did():
    shapes = [Shape(tokens, 16, 128) for tokens in (1, 2, 4, 8)]
    findings, times = {}, (80.0, 101.0, 150.0, None)
    for shape, us in zip(shapes, times, strict=True):
        plan, other = list(every_plan(shape))[:2]
        rows = (PlanRow(plan, "ok", 100.0), PlanRow(other, "pruned", 130.0))
        rival = PlanRow(rival_plan(shape, "sparse"), "invalid" if us is None else "ok", us)
        note_rivals(findings, PointRecord("a-b", shape, "ok", (*rows, rival), best=plan, tie_band=0.02))
    [rival] = findings.values()
    assert rival.words == (
        "sparse: faster than the best plan at 1 of 3 shapes by up to 20.00 %, slower at 1 by up to 50.00 %, "
        "as fast at 1"
    )


def test_a_written_report_has_a_section_on_rivals(tmp_path):
    shutil.copytree(RUN, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    plain = render(read_run(run), [])
    first, *others = read_journal(run.journal)
    us = min(row.median_us for row in first.rows if row.median_us) / 2
    rival = PlanRow(rival_plan(first.shape, "sparse"), "ok", us)
    run.journal.unlink()
    with Journal(run.journal) as journal:
        journal.append(replace(first, rows=(*first.rows, rival), best=rival.plan, tied=(rival.plan,), status="ok"))
        for record in others:
            journal.append(record)
    text = render(read_run(run), [])
    assert "Rivals" not in plain
    assert "\n## Rivals\n" in text
    assert (
        "\n- sparse: faster than the best plan at 1 of 1 shapes by up to 50.00 %, slower at 0, as fast at 0\n" in text
    )
