"""The committed sweeps of an H200: their tables, what they say of the kernel, and how they do on shapes held out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cake_tune.fit.run import check_table, table_of_run
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.lookup import decide
from cake_tune.planner.table import load_table, table_text
from cake_tune.spec import load_spec, parse_spec

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "nvidia-h200"
SHIPPED = ROOT / "cake_tune" / "planner" / "tables" / "nvidia-h200.json"


@pytest.mark.parametrize("sweep", ["dsv4-nvfp4", "dsv4-nvfp4-short"])
def test_a_committed_table_is_what_its_journal_gives(sweep):
    run = RunDirectory(RESULTS / sweep)
    check_table(run, run.table)


def test_the_shipped_table_is_the_committed_one():
    assert SHIPPED.read_bytes() == (RESULTS / "dsv4-nvfp4" / "table.json").read_bytes()


@pytest.mark.parametrize("sweep", ["dsv4-nvfp4", "dsv4-nvfp4-short"])
def test_the_cost_model_finds_how_the_kernel_is_made(sweep):
    """Two and four head tiles run in warpgroups of 64 heads, and two splits merge in a pair (kernels/manifest.json)."""
    model = load_table(RESULTS / sweep / "table.json").outside.cost_model
    assert {cost.head_tiles: cost.heads_per_block for cost in model.kernels} == {1: 16, 2: 64, 4: 64}
    assert model.pair_us is not None


@pytest.mark.parametrize("sweep", ["dsv4-nvfp4", "dsv4-nvfp4-short", "dsv4-nvfp4-heldout"])
def test_a_committed_run_is_of_the_spec_that_is_here(sweep):
    """Comments may differ, as they are no part of a row's key: the same command still goes on with the same run."""
    info = RunDirectory(RESULTS / sweep).read_info()
    then, now = parse_spec(info.spec_text, info.spec_path), load_spec(ROOT / "sweeps" / f"{sweep}.yaml")
    assert (replace(then, text="", path=""), then.points()) == (replace(now, text="", path=""), now.points())


def test_a_fit_does_not_depend_on_the_order_of_the_journal(tmp_path):
    source = RunDirectory(RESULTS / "dsv4-nvfp4-short")
    shuffled = RunDirectory(tmp_path)
    lines = source.journal.read_text().splitlines(keepends=True)
    shuffled.journal.write_text("".join(reversed(lines)))
    for name in ("run.json", "in-force.json"):
        (tmp_path / name).write_bytes((RESULTS / "dsv4-nvfp4-short" / name).read_bytes())
    assert table_text(table_of_run(shuffled)) == source.table.read_text()


@pytest.mark.parametrize(("sweep", "mean"), [("dsv4-nvfp4", 0.01), ("dsv4-nvfp4-short", 0.01)])
def test_it_answers_well_for_shapes_that_nobody_measured(sweep, mean):
    table, lost = load_table(RESULTS / sweep / "table.json"), []
    for record in RunDirectory(RESULTS / "dsv4-nvfp4-heldout").read_records():
        shape = record.shape
        times = {row.plan: row.median_us for row in record.rows if row.median_us and row.plan.num_splits <= 16}
        plan = decide(
            table,
            num_tokens=shape.num_tokens,
            num_heads=shape.num_heads,
            topk=shape.topk,
            extra_topk=shape.extra_topk,
        ).plan
        lost.append(times.get(plan, max(times.values())) / min(times.values()) - 1)
    assert len(lost) == 200
    assert np.mean(lost) < mean
