"""From specs to the study, as a user goes: sweeps on two occasions, an A/A run, held-out shapes, and what they show."""

import csv
from pathlib import Path

import pytest
from commands import cake_tune

SPEC = """\
version: 1
backend: simulated
seed: {seed}
shapes:
  num_tokens: {tokens}
  num_heads: [16, 64]
  topk: [128, 512]
measure: {{warmup_seconds: 0, max_rounds: 12}}
"""


def sweep(directory: Path, name: str, tokens: str, seed: int, *options: str) -> Path:
    spec = directory / f"{name}.yaml"
    spec.write_text(SPEC.format(tokens=tokens, seed=seed), encoding="utf-8")
    done = cake_tune("sweep", spec, "--results", directory / "results", *options)
    assert done.returncode == 0, done.stderr
    (run,) = (directory / "results").glob(f"*/{name}")
    return run


@pytest.mark.slow
def test_two_occasions_a_twin_run_and_held_out_shapes_give_every_figure(tmp_path):
    first = sweep(tmp_path, "first", "[1, 8, 64]", 1)
    second = sweep(tmp_path, "second", "[1, 8, 64]", 2)
    held_out = sweep(tmp_path, "held-out", "[2, 24]", 3)
    sweep(tmp_path, "first", "[1, 8, 64]", 1, "--aa", "6")
    done = cake_tune("study", "gpu", first, second, "--held-out", held_out, "--replays", "4")
    assert done.returncode == 0, done.stderr
    with (first.parent / "study" / "figures.csv").open(encoding="utf-8", newline="") as file:
        figures = {row["figure"]: row for row in csv.DictReader(file)}
    assert "12 points" in figures["agreement of A and B"]["definition"]
    assert "6 A/A points" in figures["A/A differences"]["definition"]
    assert "8 held-out shapes" in figures["mean regret on held-out shapes"]["definition"]
    for name, figure in figures.items():
        # A simulated device has no account of a GPU's time.
        assert (figure["value_pct"] == "") == name.startswith("overhead"), name
    assert float(figures["agreement of A and B"]["value_pct"]) > 50
    assert float(figures["mean regret on measured points"]["value_pct"]) < 5
    replayed = cake_tune("replay", first, "--policy", "race", "--policy", "argmin:1", "--seeds", "4")
    assert replayed.returncode == 0, replayed.stderr
    assert "did not keep the means" not in replayed.stdout
    assert cake_tune("compare", first, second, "--margin", "20").returncode == 0
