"""What a coverage says of a model's shapes, and the sweep that fills its gaps."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planner_strategies import tables

from cake_tune.coverage.answers import cover
from cake_tune.coverage.card import ModelCard
from cake_tune.coverage.gaps import gap_spec
from cake_tune.coverage.load import load_card
from cake_tune.coverage.words import coverage_text
from cake_tune.errors import UsageError
from cake_tune.planner.registry import nearest_published, shipped_tables
from cake_tune.planner.table import Provenance, Region
from cake_tune.spec import parse_spec

GOLDEN = Path(__file__).parents[1] / "data" / "coverage" / "deepseek-v4-flash-tp8.txt"
PUBLISHED = nearest_published(188)


def card(*attention, sizes=(1, 2, 8), heads=32):
    layers = [{"layers": f"kind {i}", **kind} for i, kind in enumerate(attention)]
    return ModelCard.model_validate(
        {"version": 1, "model": "Toy", "heads": heads, "attention": layers, "capture_sizes": list(sizes)}
    )


def measured(*regions, **changes):
    """The RTX PRO 6000's rules as if measured at ``regions``."""
    return replace(PUBLISHED, provenance=Provenance("measured", "a test"), measured=regions, **changes)


def test_the_text_is_the_committed_one():
    assert coverage_text(cover(load_card("deepseek-v4-flash"), 8, PUBLISHED), "text") == GOLDEN.read_text()


def test_measured_ruled_and_extrapolated_shapes_are_told_apart():
    table = measured(Region(32, 128, 0, decode=(1, 8), prefill=(1, 8)))
    covered = cover(card({"topk": 128}, {"topk": 256}, sizes=(1, 4, 8, 9)), 1, table)
    assert [dict(each.sources) for each in covered.layers] == [
        {"measured": 2, "rule": 1, "extrapolated": 1},
        {"extrapolated": 4},
    ]
    assert [shape.num_tokens for shape in covered.gaps()] == [4, 9, 1, 4, 8, 9]
    assert "8 shapes: 2 measured, 1 by rule, 5 extrapolated" in coverage_text(covered, "text")


def test_another_gpu_is_extrapolated():
    covered = cover(card({"topk": 128}), 1, PUBLISHED, num_sms=132)
    assert dict(covered.sources) == {"extrapolated": 3}
    assert {decision.num_sms for each in covered.layers for _, decision in each.answers} == {132}


@pytest.mark.parametrize(
    ("heads", "tp", "per_gpu", "padded"), [(64, 8, 8, 8), (64, 16, 4, 8), (40, 1, 40, 48), (128, 1, 128, 128)]
)
def test_heads_are_shared_out_and_padded_to_the_next_count(heads, tp, per_gpu, padded):
    covered = cover(card({"topk": 64}, heads=heads), tp, PUBLISHED)
    assert (covered.heads, covered.num_heads) == (per_gpu, padded)
    assert {shape.num_heads for each in covered.layers for shape, _ in each.answers} == {padded}
    told = f"the kernels have no {per_gpu} heads: engines pad to {padded}, as here"
    assert (told in coverage_text(covered, "text")) == (per_gpu != padded)


@pytest.mark.parametrize("tp", [3, 64])
def test_a_tp_that_cuts_a_head_is_refused(tp):
    with pytest.raises(UsageError, match=f"--tp: expected a divisor of the 32 heads, got {tp}"):
        cover(card({"topk": 64}), tp, PUBLISHED)


def test_what_no_kernel_runs_is_no_gap_and_says_why():
    covered = cover(card({"topk": 16384}, {"topk": 16385}, {"topk": 1025}, {"topk": 64}), 1, PUBLISHED)
    assert [each.no_decode for each in covered.layers] == ["", "at most 256 chunks", "", ""]
    assert [each.no_prefill for each in covered.layers] == [*["at most 16 chunks"] * 3, ""]
    assert {shape.topk for shape in covered.gaps()} == {16384, 1025, 64}
    lines = coverage_text(covered, "text").splitlines()
    assert any("16+ splits" in line for line in lines) and any("no: at most 256 chunks" in line for line in lines)
    assert cover(card({"topk": 64}, heads=8), 1, PUBLISHED).layers[0].no_prefill == "from 16 heads on"


def test_more_heads_than_any_kernel_has_leave_nothing_to_answer():
    covered = cover(card({"topk": 64}, heads=256), 1, PUBLISHED)
    assert (covered.num_heads, covered.gaps()) == (0, [])
    text = coverage_text(covered, "text")
    assert "no: at most 128 heads" in text and "engines pad" not in text
    assert {row["source"] for row in csv.DictReader(io.StringIO(coverage_text(covered, "csv")))} == {"unsupported"}


def test_csv_and_json_have_a_line_per_shape_with_its_plan():
    covered = cover(load_card("deepseek-v4-flash"), 4, PUBLISHED)
    rows = list(csv.DictReader(io.StringIO(coverage_text(covered, "csv"))))
    lines = [json.loads(line) for line in coverage_text(covered, "json").splitlines()]
    assert len(rows) == len(lines) == 4 * 52
    assert rows == [{name: str(line[name]) for name in rows[0]} for line in lines]
    asked = {"layers": "ratio 4", "num_tokens": 1, "num_heads": 16, "extra_page_size": 64, "source": "rule"}
    (row,) = (line for line in lines if asked.items() <= line.items())
    assert (row["kernel"], row["head_tiles"], row["num_splits"], row["chunks_per_block"]) == ("decode", 1, 10, 1)


kinds = st.fixed_dictionaries(
    {
        "topk": st.sampled_from([64, 128, 1152, 20000]),
        "extra_topk": st.sampled_from([0, 512, 1024]),
        "page_size": st.sampled_from([64, 128]),
        "extra_page_size": st.sampled_from([2, 64]),
    }
)
sizes = st.lists(st.integers(1, 60), min_size=1, max_size=6, unique=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(kinds, min_size=1, max_size=5),
    sizes,
    st.sampled_from([8, 16, 40, 64]),
    tables,
    st.sets(st.integers(1, 60)),
    st.booleans(),
)
def test_the_spec_of_any_gaps_measures_just_these(attention, sizes, heads, table, tokens, flags):
    """Partly measured, so that gaps differ between the layers: every point is a gap, and every gap a point."""
    asked = card(*attention, sizes=sizes, heads=heads)
    asked = asked.model_copy(update={"lengths": flags, "sink": not flags})
    known = {(each["topk"], each["extra_topk"]) for each in attention[:2] if each["topk"] < 20000}
    num_heads = cover(asked, 1, table).num_heads
    counts = tuple(sorted(tokens))
    regions = tuple(Region(num_heads, *key, decode=counts, prefill=counts) for key in sorted(known)) if counts else ()
    covered = cover(asked, 1, replace(table, measured=regions))
    gaps = covered.gaps()
    if not gaps:
        return
    spec = parse_spec(gap_spec(covered, "simulated"), "gaps.yaml")
    usual = 64
    wanted = {each if each.extra_topk else replace(each, extra_page_size=usual) for each in gaps}
    assert {point.shape for point in spec.points()} == wanted
    assert spec.backend == "simulated"
    assert all(len(line) <= 100 for line in spec.text.splitlines())


def test_published_rules_are_said_to_be_flashinfers():
    """Nobody timed this project's kernels there, and "by rule" alone sounds as if."""
    said = "the rules are those that FlashInfer publishes for its own kernels"
    assert said in coverage_text(cover(load_card("deepseek-v4-flash"), 8, PUBLISHED), "text")
    (measured,) = [table for table in shipped_tables() if table.provenance.kind != "published"]
    assert said not in coverage_text(cover(load_card("deepseek-v4-flash"), 8, measured), "text")
