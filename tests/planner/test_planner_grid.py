"""The published decisions, row by row."""

import csv
import gzip
from pathlib import Path

import pytest

from cake_tune import planner
from cake_tune.errors import ContractError
from cake_tune.planner.shape import MAX_CHUNKS_PER_BLOCK, num_chunks

GRID = Path(__file__).parents[1] / "data" / "planner_grid.csv.gz"


@pytest.fixture(scope="module")
def rows():
    with gzip.open(GRID, "rt", newline="") as file:
        return list(csv.DictReader(file))


def asked(row):
    return {name: int(row[name]) for name in ("num_tokens", "num_heads", "topk", "extra_topk", "num_sms")}


def published_decode(row):
    return int(row["head_tiles"]), int(row["num_splits"]), int(row["chunks_per_block"])


def test_grid_covers_the_three_published_devices(rows, shipped):
    assert len(rows) == 7020
    assert {int(row["num_sms"]) for row in rows} == set(shipped)


def test_public_planners_reproduce_every_row(rows):
    for row in rows:
        question = asked(row)
        tiles = planner.cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles(**question)
        splits = planner.cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits(**question, head_tiles=tiles)
        kernel = planner.cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel(**question)
        assert (kernel, (tiles, *splits)) == (row["kernel"], published_decode(row)), row


def test_plan_prefill_reproduces_every_row_and_refuses_heads_without_prefill(rows):
    for row in rows:
        question = asked(row)
        if row["prefill_head_tiles"]:
            tiles = planner.cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill(**question)
            assert tiles == int(row["prefill_head_tiles"]), row
        else:
            with pytest.raises(ContractError, match="num_heads: expected one of 16, 32"):
                planner.cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill(**question)


def test_decide_reproduces_every_row(rows, shipped):
    for row in rows:
        question = asked(row)
        table = shipped[question.pop("num_sms")]
        chunks = num_chunks(question["topk"], question["extra_topk"])
        decode = planner.decide(table, **question, kernel="decode").plan
        assert (decode.head_tiles, decode.num_splits, decode.chunks_per_block) == published_decode(row), row
        best = planner.decide(table, **question)
        assert (best.plan.kernel, best.source) == (row["kernel"], "rule"), row
        if row["prefill_head_tiles"] and chunks <= MAX_CHUNKS_PER_BLOCK:
            prefill = planner.decide(table, **question, kernel="prefill").plan
            assert prefill == planner.Plan("prefill", int(row["prefill_head_tiles"]), 1, chunks), row
            assert best.plan in (decode, prefill), row
        else:
            assert best.plan == decode, row
            with pytest.raises(ContractError):
                planner.decide(table, **question, kernel="prefill")
