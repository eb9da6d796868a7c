"""The whole way on the real op: YAML → sweep → journal → table and report → planner, config and op answer from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cake_tune.host import cpu_device
from cake_tune.journal.journal import read_journal
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.lookup import decide
from cake_tune.planner.table import load_table

SPEC = """\
version: 1
backend: cpu
shapes:
  num_tokens: [1, 2, 8]
  num_heads: 16
  topk: 192
measure:
  regime: warm
  sample_us: 1
  discard: 1
  samples: 3
  short_samples: 3
  warmup_seconds: 0
  aa_rounds: 4
  kn_rounds: 3
  max_rounds: 4
  confirm_rounds: 3
  point_seconds: 4
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("CAKE_TUNE", "XDG_"))}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean | {"HOME": str(cwd)} | environment,
    )


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunDirectory, str]:
    """A user's directory, the run in it, and what the sweep printed."""
    home = tmp_path_factory.mktemp("user")
    (home / "small.yaml").write_text(SPEC)
    done = run("-m", "cake_tune.cli", "sweep", "small.yaml", "--emit", cwd=home)
    assert done.returncode == 0, done.stderr
    return home, RunDirectory.of(home / "results", cpu_device(), "small"), done.stdout


def test_the_sweep_leaves_a_whole_run_and_prints_the_crossovers(swept):
    _, directory, printed = swept
    for path in (directory.run_json, directory.journal, directory.measurements, directory.table, directory.report):
        assert path.stat().st_size > 0, path
    assert list(directory.plots.glob("*.png"))
    assert "crossovers between decode and prefill" in printed
    assert "H=16 topk=192" in printed


def test_every_point_and_plan_was_measured(swept):
    _, directory, _ = swept
    records = list(read_journal(directory.journal))
    assert sorted(record.shape.num_tokens for record in records) == [1, 2, 8]
    for record in records:
        assert record.status in ("ok", "tied")
        assert {row.plan.kernel for row in record.rows} == {"decode", "prefill"}
        assert all(row.median_us is not None and row.median_us > 0 for row in record.rows if row.status != "too_slow")


def test_the_table_belongs_to_this_cpu_and_is_what_the_journal_gives(swept):
    home, directory, _ = swept
    table = load_table(directory.table)
    assert table.device == cpu_device()
    assert table.provenance.kind == "measured"
    assert "not on a GPU" in table.provenance.note
    done = run("-m", "cake_tune.cli", "emit", directory.path, "--check", cwd=home)
    assert done.returncode == 0, done.stderr


def test_a_changed_table_does_not_pass_the_check(swept, tmp_path):
    home, directory, _ = swept
    changed = tmp_path / "table.json"
    text = directory.table.read_text()
    changed.write_text(text.replace('"calibrated_topks": [192]', '"calibrated_topks": [256]'))
    assert changed.read_text() != text
    done = run("-m", "cake_tune.cli", "emit", directory.path, "--output", changed, "--check", cwd=home)
    assert done.returncode == 4
    assert "is not what" in done.stderr or "expected what" in done.stderr


PROBE = """
import json
import torch
import cake_tune
from cake_tune.host import cpu_device
sms = cpu_device().num_sms
shape = dict(num_tokens=1, num_heads=16, topk=192)
pages = torch.zeros(8, 64, 384, dtype=torch.uint8)
q, out = (torch.zeros(1, 16, 512, dtype=torch.bfloat16) for _ in range(2))
lse, mid, mid_lse = torch.zeros(1, 16), torch.zeros(1, 16, 16, 512, dtype=torch.bfloat16), torch.zeros(1, 16, 16)
indices = torch.arange(192, dtype=torch.int32)[None]
ran = cake_tune.cake_sparse_mla_sm120_dsv4_nvfp4_decode(
    q, pages, indices, out, lse, 0.1, mid_out=mid, mid_lse=mid_lse)
tiles = cake_tune.cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles(**shape, num_sms=sms)
splits, cpb = cake_tune.cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits(**shape, num_sms=sms, head_tiles=tiles)
print(json.dumps({
    "topks": sorted(cake_tune.supported_sparse_mla_sm120_configs(kv_cache_format="nvfp4")["dsv4"].topks),
    "kernel": cake_tune.cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel(**shape, num_sms=sms),
    "planned": {"head_tiles": tiles, "num_splits": splits, "chunks_per_block": cpb},
    "ran": ran,
}))
"""


def answers(home: Path, **environment: str) -> dict[str, object]:
    done = run("-c", PROBE, cwd=home, **environment)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_planner_config_and_op_answer_from_the_emitted_table(swept):
    home, directory, _ = swept
    table = load_table(directory.table)
    answer = answers(home, CAKE_TUNE_TABLE=str(directory.table))
    assert answer["topks"] == [192]
    shape = {"num_tokens": 1, "num_heads": 16, "topk": 192}
    assert answer["kernel"] == decide(table, **shape).plan.kernel
    decode = decide(table, **shape, kernel="decode").plan
    expected = {name: getattr(decode, name) for name in ("head_tiles", "num_splits", "chunks_per_block")}
    assert answer["planned"] == answer["ran"] == expected


def test_without_it_the_shipped_table_answers(swept):
    home, _, _ = swept
    assert answers(home)["topks"] == [128, 512]


def test_installed_it_is_the_devices_own(swept):
    home, directory, _ = swept
    done = run("-m", "cake_tune.cli", "emit", directory.path, "--install", cwd=home)
    assert done.returncode == 0, done.stderr
    try:
        done = run("-m", "cake_tune.cli", "plan", "-T", "2", "-H", "16", "-k", "192", "--cpu", cwd=home)
        assert "measured" in done.stdout
        assert cpu_device().name in done.stdout
        gpu = run("-m", "cake_tune.cli", "plan", "-T", "2", "-H", "16", "-k", "192", "--num-sms", "188", cwd=home)
        assert "RTX PRO 6000" in gpu.stdout
    finally:
        for path in home.rglob("tables/*.json"):
            path.unlink()


def test_given_it_refuses_to_answer_for_a_gpu(swept):
    home, directory, _ = swept
    command = ("plan", "-T", "2", "-H", "16", "-k", "192", "--num-sms", "188", "--table", directory.table)
    done = run("-m", "cake_tune.cli", *command, cwd=home)
    assert done.returncode == 2
    assert "is no GPU, so it cannot answer for 188 SMs" in done.stderr
