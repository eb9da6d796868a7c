"""The public surface: complete, lazy, and light enough to import in a serving engine."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cake_tune
import cake_tune.planner

ROOT = str(Path(cake_tune.__file__).parents[1])
PACKAGES = (cake_tune, cake_tune.planner)
HEAVY = ("torch", "pandas", "numpy", "scipy", "pydantic", "matplotlib", "typer", "yaml", "cuda")


def fresh(code, *options, path=()):
    """What a fresh interpreter prints for ``code``, with this very package and ``path`` importable."""
    code = f"import sys; sys.path[:0] = {[ROOT, *map(str, path)]!r}\n{code}"
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True).stdout


def loaded_after(code):
    """Modules of ``HEAVY`` that a fresh interpreter has loaded after ``code``."""
    return fresh(f"{code}\nimport sys; print(*(name for name in {HEAVY!r} if name in sys.modules))").split()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_resolves_and_is_listed(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    assert list(package.__all__) == sorted(package.__all__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_see_exactly_the_public_names(package):
    (block,) = (node for node in ast.parse(Path(package.__file__).read_text()).body if isinstance(node, ast.If))
    typed = {}
    for node in block.body:
        typed |= {alias.name: node.module for alias in node.names}
    assert set(typed) == set(package.__all__)
    for name, home in typed.items():
        assert getattr(package, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
@pytest.mark.parametrize("name", ["nothing", "CHUNK", "TableError"])
def test_a_name_that_is_not_public_is_an_attribute_error(package, name):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute '{name}'"):
        getattr(package, name)


def test_every_public_name_has_a_docstring():
    undocumented = [
        name for name in cake_tune.__all__ if name != "__version__" and not getattr(cake_tune, name).__doc__
    ]
    assert undocumented == []


def test_version_is_what_the_installation_records(tmp_path):
    (tmp_path / "cake_tune-9.8.7.dist-info").mkdir()
    (tmp_path / "cake_tune-9.8.7.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: cake-tune\nVersion: 9.8.7\n"
    )
    ask = "import cake_tune; print(cake_tune.__version__)"
    assert fresh(ask, "-S", path=[tmp_path]).strip() == "9.8.7"
    assert fresh(ask, "-S").strip() == "0+unknown"


@pytest.mark.parametrize(
    "code",
    [
        "import cake_tune",
        "import cake_tune; dir(cake_tune); cake_tune.__version__",
        "from cake_tune import cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits as plan\n"
        "plan(num_tokens=1, num_heads=64, topk=512, num_sms=188)",
        "import cake_tune; cake_tune.decide(cake_tune.table_for()[0], num_tokens=1, num_heads=64, topk=512)",
        "import cake_tune.config as config; config.supported_sparse_mla_sm120_configs(kv_cache_format='nvfp4')",
        "from cake_tune.config import supported_sparse_mla_sm120_configs as configs; configs()",
    ],
)
def test_importing_planning_and_configuring_load_nothing_heavy(code):
    assert loaded_after(code) == []


def test_the_probe_sees_what_is_heavy():
    assert loaded_after("import numpy") == ["numpy"]
