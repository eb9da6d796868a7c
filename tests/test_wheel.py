"""The wheel, installed alone in a clean environment, carries what the package needs and answers."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    [path] = out.glob("*.whl")
    return path


def test_wheel_holds_tables_schema_specs_cards_and_kernels(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tables = {f"cake_tune/planner/tables/{path.name}" for path in (ROOT / "cake_tune/planner/tables").glob("*.json")}
    sweeps = {f"cake_tune/_sweeps/{path.name}" for path in (ROOT / "sweeps").iterdir()}
    cards = {f"cake_tune/coverage/models/{path.name}" for path in (ROOT / "cake_tune/coverage/models").iterdir()}
    kernels = {f"cake_tune/_kernels/{path.name}" for path in (ROOT / "kernels").iterdir()}
    assert len(tables) >= 3
    assert sweeps >= {"cake_tune/_sweeps/schema.json", "cake_tune/_sweeps/cpu-quickstart.yaml"}
    templates = {f"cake_tune/export/templates/{path.name}" for path in (ROOT / "cake_tune/export/templates").iterdir()}
    assert tables | sweeps | cards | templates | kernels <= names
    assert not [name for name in names if name.startswith(("tests/", "results/"))]


def test_installed_wheel_plans_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """Installs the wheel with its dependencies as a user would, away from the checkout, and asks for a plan."""
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin/python"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}

    def run(*command: str) -> str:
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=clean)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel))
    out = run(str(environment / "bin/cake-tune"), "plan", "-T", "4", "-H", "64", "-k", "512", "--num-sms", "188")
    assert "decode" in out
    assert "rtx" in out.lower()
