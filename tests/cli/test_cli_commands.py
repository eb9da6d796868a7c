"""The commands that measure nothing: what they print, and how they fail."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import cake_tune

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "build",
    "check",
    "compare",
    "coverage",
    "devices",
    "emit",
    "fit",
    "plan",
    "replay",
    "report",
    "schema",
    "study",
    "sweep",
    "verify",
)


def test_help_lists_every_command():
    done = cake_tune("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command):
    done = cake_tune(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: cake-tune {command}") or "Usage:" in done.stdout


def test_help_loads_nothing_heavy():
    """What takes long to import stays out of the way of help."""
    probe = (
        "import sys; sys.argv = ['cake-tune', 'sweep', '--help']\n"
        "from cake_tune.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'scipy', 'matplotlib', 'yaml', 'rich', 'cuda'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_no_arguments_and_unknown_commands_are_usage():
    assert cake_tune().returncode == 2
    done = cake_tune("swep")
    assert done.returncode == 2
    assert "swep" in done.stderr


def test_version():
    done = cake_tune("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("cake-tune ")


def test_check_counts_points_of_good_specs_and_reports_every_bad_one(tmp_path):
    good = ROOT / "sweeps" / "cpu-quickstart.yaml"
    bad = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for path in bad:
        path.write_text("version: 1\nbackend: cpu\nshapes: {num_token: 1}\n")
    done = cake_tune("check", good, *bad)
    assert done.returncode == 2
    assert f"{good}: ok: " in done.stdout
    for path in bad:
        assert f"{path}:3:" in done.stderr
    assert "num_tokens" in done.stderr


def test_problems_of_a_spec_start_their_lines_so_that_editors_find_the_place(tmp_path):
    spec = tmp_path / "bad.yaml"
    spec.write_text("version: 1\nbackend: cpu\nshapes: {num_token: 1}\n")
    for command in ("check", "sweep"):
        done = cake_tune(command, spec, cwd=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) > 1
        assert all(line.startswith(f"{spec}:3:") for line in done.stderr.splitlines())


@pytest.mark.parametrize(
    ("backend", "plans", "said"),
    [
        ("faults:cpu:boom@x", "", "expected faults as KIND@PLAN"),
        ("cpu:fast", "", "expected 'cpu' without configuration"),
        ("cpu", "plans: {options: {qk: nvfp4}}", "build options of the backend cpu (none), got qk"),
    ],
)
def test_check_refuses_what_a_sweep_would(tmp_path, backend, plans, said):
    spec = tmp_path / "bad.yaml"
    shapes = "shapes: {num_tokens: 1, num_heads: 16, topk: 64}"
    spec.write_text(f'version: 1\nbackend: "{backend}"\n{shapes}\n{plans}\n')
    for command in ("check", "sweep"):
        done = cake_tune(command, spec, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [spec]


def test_check_of_a_gpu_sweep_needs_no_gpu(tmp_path):
    spec = tmp_path / "gpu.yaml"
    options = "plans: {options: {qk: [bf16, nvfp4]}}"
    spec.write_text(f"version: 1\nbackend: cuda\nshapes: {{num_tokens: 1, num_heads: 16, topk: 64}}\n{options}\n")
    done = cake_tune("check", spec, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_error_that_is_not_the_systems_keeps_its_traceback():
    """Only what the system refuses is the user's to put right; the rest is a bug, with exit code 1."""
    for error, code, said in (
        ("OSError('libnone.so: cannot open')", 1, "Traceback"),
        ("RuntimeError('x')", 1, "Traceback"),
        ("OSError(28, 'No space left on device')", 2, "error: No space left on device"),
    ):
        probe = (
            "import sys; sys.argv = ['cake-tune', 'devices']\n"
            "from cake_tune import host\n"
            "def broken(): raise " + error + "\n"
            "host.cpu_device = broken\n"
            "from cake_tune.cli import main\n"
            "main()"
        )
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
        assert done.returncode == code, error
        assert said in done.stderr


def test_schema_is_the_committed_one():
    done = cake_tune("schema")
    assert done.returncode == 0
    assert done.stdout == (ROOT / "sweeps" / "schema.json").read_text()


def test_plan_says_what_and_why():
    done = cake_tune("plan", "-T", "1", "-T", "64", "-H", "64", "-k", "512", "--num-sms", "188")
    assert done.returncode == 0
    first, second = done.stdout.split("T=64")
    assert "T=1 H=64 topk=512: decode, 1 head tile, 4 splits, 2 chunks per block" in first
    assert "rules of NVIDIA RTX PRO 6000" in first
    assert "prefill, 2 head tiles" in second


def test_plan_without_a_device_says_what_it_stands_on(tmp_path):
    question = ("plan", "-T", "1", "-H", "8", "-k", "64")
    done = cake_tune(*question)
    assert done.returncode == 0
    assert "1 chunk per block" in done.stdout
    assert done.stderr.startswith("no device and no table given: the answers are those of ")
    assert "RTX PRO 6000" in done.stderr
    table = ROOT / "cake_tune" / "planner" / "tables" / "gb10.json"
    for given in (("--cpu",), ("--num-sms", "188"), ("--table", table)):
        assert cake_tune(*question, *given).stderr == ""


def test_verifying_a_gpu_that_is_not_there_is_exit_6():
    done = cake_tune("verify", "--backend", "cuda", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 6
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr


def test_ctrl_c_while_it_still_loads_is_130_without_a_word():
    probe = (
        "import sys; sys.argv = ['cake-tune', 'devices']\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from cake_tune.cli import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_plan_on_unknown_hardware_says_extrapolated():
    done = cake_tune("plan", "-T", "1", "-H", "64", "-k", "512", "--num-sms", "131", "--json")
    assert json.loads(done.stdout)["source"] == "extrapolated"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "-T", "1", "-H", "17", "-k", "512"), "num_heads: expected one of 8, 16"),
        (("plan", "-T", "1", "-H", "16", "-k", "0"), "topk: expected an integer >= 1, got 0"),
        (("plan", "-T", "1", "-H", "16", "-k", "64", "--cpu", "--num-sms", "4"), "--num-sms: expected without --cpu"),
        (("plan", "-T", "1", "-H", "16", "-k", "64", "--table", "absent.json"), "absent.json: cannot be read"),
        (("fit", "absent"), "absent/run.json"),
        (("emit", "absent"), "absent/run.json"),
        (("report", "absent"), "absent/run.json"),
        (("check", "absent.yaml"), "absent.yaml: cannot read the spec"),
        (("sweep", "absent.yaml"), "absent.yaml: cannot read the spec"),
        (("verify", "--backend", "abacus"), "abacus"),
        (
            ("coverage", "-m", "deepseek-v4-flash", "-b", "abacus"),
            "backend: expected one of the following, got 'abacus'",
        ),
        (("emit", "run", "--format", "jsn"), "--format: expected json or python, got 'jsn' (did you mean \"json\"?)"),
        (("coverage", "-m", "deepseek-v4-flash", "--format", "x"), "--format: expected text, csv or json, got 'x'"),
        (("coverage", "-m", "deepseek-v4-flash", "--num-sms", "0"), "--num-sms: expected an integer >= 1, got 0"),
        (("build", "-a", "sm_90a,sm_80"), "arch: expected one of sm_90a, sm_120a, sm_121a, got 'sm_80'"),
        (("build", "--flashinfer", "-a", "sm_90a"), "--arch: expected without --flashinfer"),
        (("verify", "--backend", "faults:cpu:crash@*"), "--backend: expected one that runs in this process"),
        (("plan", "-T", "1", "-H", "16", "-k", "100000", "--cpu"), "--topk: expected at most 16384 candidates"),
        (("schema", "-o", "absent/schema.json"), "error: absent/schema.json: No such file or directory"),
        (
            ("replay", ROOT / "tests/data/study/a", "--csv", "absent/x.csv"),
            "--csv: expected a file in a directory that",
        ),
        (("fit", ROOT / "README.md"), "run: expected a run directory with a run.json, found none at "),
        (("schema", "-o", "."), "error: .: Is a directory"),
    ],
)
def test_wrong_input_is_exit_2_with_one_message(arguments, message, tmp_path):
    done = cake_tune(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["run.json", "in-force.json"])
def test_json_nested_without_end_is_one_message(name, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(ROOT / "tests" / "data" / "report-run", run)
    (run / name).write_text("[" * 100_000)
    done = cake_tune("fit", run)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {run / name}: ") and done.stderr.endswith("nested too deeply\n")


def test_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m cake_tune.cli schema | head -c 1"
    done = subprocess.run(command, shell=True, check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""


def test_each_backend_is_answered_by_its_own_installed_table(tmp_path):
    data, question = {"XDG_DATA_HOME": str(tmp_path)}, ("plan", "-T", "1", "-H", "16", "-k", "64", "--num-sms", "84")
    table = json.loads((ROOT / "cake_tune" / "planner" / "tables" / "gb10.json").read_text())
    table["device"] |= {"name": "NVIDIA RTX 5080", "num_sms": 84}
    for backend in ("cuda", "flashinfer"):
        table["provenance"] |= {"kind": "measured", "source": f"cake-tune sweep on backend {backend}"}
        path = tmp_path / "cake-tune" / "tables" / f"{backend}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(table))
    assert "NVIDIA RTX 5080 (84 SMs, measured)" in cake_tune(*question, **data).stdout
    for command in (question, ("coverage", "-m", "deepseek-v4-flash", "--num-sms", "84")):
        said = cake_tune(*command, "--backend", "flashinfer", **data).stdout
        assert "NVIDIA RTX 5080 (84 SMs, measured on flashinfer)" in said
