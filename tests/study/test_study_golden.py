import csv
import shutil
from pathlib import Path

import pytest

from cake_tune.journal.run import RunDirectory
from cake_tune.study.gather import gather
from cake_tune.study.write import write_study

DATA = Path(__file__).parent.parent / "data" / "study"


def written(root: Path, **options) -> Path:
    """The study of a copy of the golden runs under ``root``, in a sister directory of theirs."""
    for name in "abc":
        shutil.copytree(DATA / name, root / name, dirs_exist_ok=True)
    a, b, c = (RunDirectory(root / name) for name in "abc")
    write_study(gather(a, b, c, **options), root / "golden")
    return root / "golden"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return written(tmp_path_factory.mktemp("study"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["report.md", "figures.csv"])
def test_the_study_is_the_committed_one(study, name):
    assert (study / name).read_text(encoding="utf-8") == (DATA / "golden" / name).read_text(encoding="utf-8")


def test_the_same_runs_give_the_same_bytes_wherever_they_lie(study, tmp_path):
    again = written(tmp_path)
    files = sorted(path.relative_to(study) for path in study.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert [str(path) for path in files if path.suffix == ".png"] == [
        f"plots/{name}.png" for name in ("agreement", "regret", "replay", "twins")
    ]
    for path in files:
        assert (again / path).read_bytes() == (study / path).read_bytes(), path


def test_every_plot_is_a_picture_and_shown(study):
    text = (study / "report.md").read_text(encoding="utf-8")
    for path in (study / "plots").iterdir():
        assert f"](plots/{path.name})" in text
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000


def test_the_csv_files_add_up_to_the_figures(study):
    figures = {row["figure"]: row for row in rows(study / "figures.csv")}
    agreement = rows(study / "agreement.csv")
    agrees = [row["agrees"] for row in agreement]
    share = 100 * agrees.count("true") / len(agrees)
    assert float(figures["agreement of A and B"]["value_pct"]) == pytest.approx(share)
    for row in agreement:
        losses = [float(row[name]) for name in ("loss_of_a_by_b_pct", "loss_of_b_by_a_pct")]
        assert (max(losses) <= 1) == (row["agrees"] == "true")
    differs = [row["differs"] for row in rows(study / "twins.csv")]
    value = float(figures["A/A differences"]["value_pct"])
    assert value == pytest.approx(100 * differs.count("true") / len(differs))
    for label, where in (("A", "measured points"), ("C", "held-out shapes")):
        regrets = [
            float(row["regret_pct"])
            for row in rows(study / "regret.csv")
            if (row["run"], row["plans_from"]) == (label, "table of run A")
        ]
        mean, worst = (float(figures[f"{kind} regret on {where}"]["value_pct"]) for kind in ("mean", "worst"))
        assert mean == pytest.approx(sum(regrets) / len(regrets), abs=1e-3)
        assert worst == pytest.approx(max(regrets), abs=1e-3)
    assert len(rows(study / "replay.csv")) == 6 * 16
    assert {row["audit_gpu"] for row in rows(study / "gpus.csv")} == {"GPU-2"}


def test_what_was_not_measured_is_said(tmp_path):
    for name in "ab":
        shutil.copytree(DATA / name, tmp_path / name, ignore=shutil.ignore_patterns("aa", "table.json"))
    a, b = (RunDirectory(tmp_path / name) for name in "ab")
    figures = {each.name: each for each in write_study(gather(a, b, replays=0), tmp_path / "out")}
    for name in ("A/A differences", "mean regret on held-out shapes", "worst regret on held-out shapes"):
        assert figures[name].value is None
        assert figures[name].verdict == "not measured"
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "Not measured: none of the runs has an A/A run" in text
    assert "There is no held-out run" in text
    assert "fitted from its journal here, since it has no `table.json`" in text
    assert "Not replayed" in text
    assert "cake-tune study gpu ../a ../b --replays 0 --out ." in text
    assert sorted(path.name for path in (tmp_path / "out" / "plots").iterdir()) == ["agreement.png", "regret.png"]


def test_a_point_of_the_sweep_is_not_held_out(study):
    text = (study / "report.md").read_text(encoding="utf-8")
    assert "Left out, since run A has them too and they are not held out: 1 point of run C." in text
    held = {
        (row["num_tokens"], row["num_heads"], row["topk"]) for row in rows(study / "regret.csv") if row["run"] == "C"
    }
    assert len(held) == 6
