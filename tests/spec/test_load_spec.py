"""What a valid spec becomes."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, fields

import pytest
from spec_strategies import BASE, FULL

from cake_tune.backends import BACKENDS
from cake_tune.errors import SpecError
from cake_tune.measure.protocol import Protocol
from cake_tune.spec import Search, load_spec, parse_spec
from cake_tune.spec.measure_model import Measure


def test_defaults():
    """A minimal spec takes every number of the protocol as it stands, and its name from the file."""
    spec = parse_spec(BASE, "some/folder/quick.yaml")
    assert (spec.name, spec.backend, spec.seed, spec.time_budget_seconds, spec.description) == (
        "quick",
        "cpu",
        0,
        None,
        "",
    )
    assert spec.protocol == Protocol()
    assert (spec.search, spec.weights) == (Search("exhaustive", refine=False, regret=0.003), ())
    assert (spec.text, spec.path) == (BASE, "some/folder/quick.yaml")
    assert len(spec.points()) == 4


def test_every_key():
    """Every key of the format reaches the spec."""
    spec = parse_spec(FULL, "other.yaml")
    assert (spec.name, spec.description, spec.backend, spec.seed) == ("full", "Every key once.", "cuda", 7)
    assert spec.time_budget_seconds == 5400
    assert asdict(spec.protocol) == asdict(Protocol()) | {"regime": "warm", "samples": 5, "alpha": 0.1}
    shapes = {point.shape for point in spec.points()}
    assert {shape.page_size for shape in shapes} == {1, 64}
    assert all(shape.sink and shape.num_tokens * shape.num_heads <= 1024 for shape in shapes)
    assert all(plan.options[0] == ("qk", "bf16") for point in spec.points() for plan in point.plans)
    assert spec.search == Search("adaptive", refine=True, regret=0.01)
    assert len(spec.points()) == 500


def test_a_spec_does_not_change():
    """A spec is frozen, and the list of its points is the caller's own."""
    spec = parse_spec(BASE, "quick.yaml")
    with pytest.raises(FrozenInstanceError):
        spec.seed = 1
    spec.points().clear()
    assert len(spec.points()) == 4


def test_same_text_same_points():
    """The points and their order depend on the text alone."""
    assert parse_spec(FULL, "a.yaml").points() == parse_spec(FULL, "a.yaml").points()


@pytest.mark.parametrize(
    ("budget", "seconds"),
    [("90", 90.0), ("0.5", 0.5), ("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ('"45s"', 45.0)],
)
def test_time_budget(budget, seconds):
    """A number is seconds; a unit says otherwise."""
    assert parse_spec(BASE + f"time_budget: {budget}\n", "a.yaml").time_budget_seconds == seconds


@pytest.mark.parametrize("budget", ["-1s", "0h", "721h", "1d", "s", "1e3s", "31536000", ".nan", "true"])
def test_time_budget_out_of_range(budget):
    """A budget is above nothing and at most 30 days."""
    with pytest.raises(SpecError, match="7:14: time_budget: expected"):
        parse_spec(BASE + f"time_budget: {budget}\n", "a.yaml")


def test_file_name_that_cannot_name_a_sweep():
    """A name that makes no safe folder is refused, unless the spec gives another."""
    with pytest.raises(SpecError, match=r'^My Sweep\.yaml:1:1: name: the file name "My Sweep" cannot name the sweep'):
        parse_spec(BASE, "My Sweep.yaml")
    assert parse_spec(BASE + "name: fine\n", "My Sweep.yaml").name == "fine"


def test_file_and_text_are_the_same(tmp_path):
    """A file is read as its bytes are: UTF-8, with or without a byte-order mark."""
    path = tmp_path / "quick.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + (BASE + "description: caf\u00e9\n").encode())
    spec = load_spec(path)
    assert spec.description == "caf\u00e9"
    assert spec.points() == parse_spec(BASE, "quick.yaml").points()


def test_measure_has_the_fields_of_the_protocol():
    """Every number of the protocol can be set in a spec, its default being the protocol's own and within the bounds."""
    assert list(Measure.model_fields) == [field.name for field in fields(Protocol)]
    assert Measure.model_validate(asdict(Protocol())).model_dump() == asdict(Protocol())
    assert all(field.description for field in Measure.model_fields.values())


def test_every_backend_can_be_named():
    """A spec may name every backend there is, with its configuration."""
    for name in BACKENDS:
        assert parse_spec(BASE.replace("cpu", name), "a.yaml").backend == name
        configured = f"{name}:cpu:crash@decode/t1/s2x*"
        assert parse_spec(BASE.replace("cpu", configured), "a.yaml").backend == configured


def test_loads_no_tensor_library():
    """Checking a spec needs neither torch nor numpy nor pandas."""
    code = "import sys, cake_tune.spec; print([m for m in ('torch', 'numpy', 'pandas', 'cuda') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
