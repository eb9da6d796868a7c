"""``coverage`` as a user types it, through to a table that has measured everything."""

import pytest
from commands import cake_tune

from cake_tune.coverage.load import model_names

CARD = """\
version: 1
model: Toy
heads: 64
sink: true
attention:
  - {layers: window, topk: 128}
  - {layers: indexed, topk: 128, extra_topk: 192, extra_page_size: 2}
capture_sizes: [1, 2, 6]
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(CARD)
    return path


def test_the_gaps_once_swept_are_gaps_no_more(model, tmp_path):
    """From a card to a spec, a simulated sweep and its table, which has measured every shape of the model."""
    ask = ("coverage", "--model", model, "--tp", "2")
    spec = tmp_path / "gaps.yaml"
    first = cake_tune(*ask, "--write-spec", spec, "--backend", "simulated", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "6 shapes: 0 measured, 6 by rule, 0 extrapolated" in first.stdout
    assert first.stdout.endswith(f"{spec}: the sweep of 6 shapes on backend simulated\n")
    checked = cake_tune("check", spec)
    assert checked.stdout.startswith(f"{spec}: ok: 6 points, ")
    swept = cake_tune("sweep", spec, "--emit", cwd=tmp_path)
    assert swept.returncode == 0, swept.stderr
    (table,) = tmp_path.glob("results/*/gaps-toy-tp2/table.json")
    again = tmp_path / "again.yaml"
    last = cake_tune(*ask, "--table", table, "--write-spec", again, cwd=tmp_path)
    assert last.returncode == 0, last.stderr
    assert "6 shapes: 6 measured, 0 by rule, 0 extrapolated" in last.stdout
    assert last.stdout.endswith(f"{again}: not written: nothing to measure\n")
    assert not again.exists()


def test_formats_keep_stdout_for_their_lines(model, tmp_path):
    spec = tmp_path / "gaps.yaml"
    done = cake_tune("coverage", "-m", model, "--format", "csv", "--write-spec", spec)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 7
    assert done.stdout.startswith("layers,num_tokens,")
    assert done.stderr == f"{spec}: the sweep of 6 shapes on backend cuda\n"


def test_a_wrong_card_starts_its_lines_so_that_editors_find_the_place(model):
    model.write_text(CARD.replace("heads: 64", "haeds: 64"))
    done = cake_tune("coverage", "--model", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"{model}:1:1: heads: required key is missing"
    assert f'{model}:3:1: haeds: unknown key (did you mean "heads"?)' in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("-m", "deepseek-v5"),
            "--model: expected deepseek-v4-flash, deepseek-v4-flash-dspark, deepseek-v4.1-flash or a",
        ),
        (("-m", "absent.yaml"), "absent.yaml: cannot read the card"),
        (("-m", "deepseek-v4-flash", "--tp", "5"), "--tp: expected a divisor of the 64 heads, got 5"),
        (("-m", "deepseek-v4-flash", "--table", "absent.json"), "absent.json: cannot be read"),
        (("-m", "deepseek-v4-flash", "--write-spec", "x.yaml", "-b", "abacus"), "abacus"),
        (("-m", "deepseek-v4-flash", "--write-spec", "absent/x.yaml"), "absent/x.yaml: No such file or directory"),
    ],
)
def test_wrong_input_is_exit_2_with_one_message(arguments, message, tmp_path):
    done = cake_tune("coverage", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_shipped_card_makes_a_spec_that_check_passes(tmp_path):
    specs = []
    for name in model_names():
        for tp in (1, 8):
            specs.append(tmp_path / f"{name}-{tp}.yaml")
            done = cake_tune("coverage", "-m", name, "--tp", str(tp), "--write-spec", specs[-1], "-b", "simulated")
            assert done.returncode == 0, done.stderr
    done = cake_tune("check", *specs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(": ok: ") == len(specs)
