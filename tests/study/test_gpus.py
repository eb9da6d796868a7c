"""Points measured on two GPUs: the worst are what a reader sees first, and all of them are counted."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import Shape
from cake_tune.study.gather import gather
from cake_tune.study.gpus import Audited, worst_first
from cake_tune.study.markdown import MOST_ROWS, render

DATA = Path(__file__).parent.parent / "data" / "study"


def audited(num_tokens, ratio, loss):
    return Audited(Shape(num_tokens, 16, 512), "GPU-1", "GPU-2", () if ratio is None else (ratio,), loss)


def report(tmp_path, audits):
    for name in "ab":
        shutil.copytree(DATA / name, tmp_path / name)
    a, b = (RunDirectory(tmp_path / name) for name in "ab")
    evidence = replace(gather(a, b, replays=0), audits=tuple(audits))
    return render(evidence, [], [], tmp_path).partition("## Several GPUs")[2].partition("## Replay")[0]


def test_what_a_choice_loses_counts_before_how_far_the_gpus_are_apart():
    none, worst, wide, slow, fast, same = (
        audited(1, None, None),
        audited(2, 1.0, 0.04),
        audited(3, 1.01, 0.01),
        audited(4, 1.05, 0.0),
        audited(5, 1 / 1.06, 0.0),
        audited(6, 1.0, 0.0),
    )
    assert worst_first([same, slow, none, fast, wide, worst]) == [none, worst, wide, fast, slow, same]
    assert math.isnan(none.ratio) and none.apart == 0


def test_many_audits_are_counted_and_the_worst_of_them_is_shown(tmp_path):
    many = [audited(t, 1 + t / 1000, 0.0) for t in range(1, MOST_ROWS + 4)]
    text = report(tmp_path, [*many, audited(200, 0.9, 0.031)])
    assert f"{MOST_ROWS + 4} points measured again" in text
    assert "| the choice loses at most | 3.10 % (T=200 H=16 topk=512) |" in text
    assert f"| the choice loses something | 1 of {MOST_ROWS + 4} (4.2 %) |" in text
    assert "| least ratio | 0.9000 (T=200 H=16 topk=512) |" in text
    assert f"| greatest ratio | 1.0230 (T={MOST_ROWS + 3} H=16 topk=512) |" in text
    assert f"all {MOST_ROWS + 4} are in `gpus.csv`" in text
    rows = [line for line in text.splitlines() if line.startswith("| T=")]
    assert len(rows) == MOST_ROWS
    assert rows[0] == "| T=200 H=16 topk=512 | 0.9000 | 1 | 3.10 % |"
    assert rows[1] == f"| T={MOST_ROWS + 3} H=16 topk=512 | 1.0230 | 1 | 0.00 % |"


def test_an_audit_without_a_time_is_the_worst(tmp_path):
    text = report(tmp_path, [audited(1, 1.01, 0.0), audited(2, None, None)])
    assert "| the choice has no time there | 1 |" in text
    rows = [line for line in text.splitlines() if line.startswith("| T=")]
    assert rows[0] == "| T=2 H=16 topk=512 | no time | 0 | no time |"
    assert "All of them, the worst first" in text
