"""A key covers everything that a row depends on, and nothing else."""

import re
from dataclasses import fields, replace

import pytest
from sweep_specs import QUICK, make_spec

from cake_tune.backends.simulated import create
from cake_tune.journal.run import RunDirectory
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Shape
from cake_tune.planner.table import KernelIdentity
from cake_tune.spec import Point
from cake_tune.sweep.keys import point_keys
from cake_tune.sweep.provenance import run_info

SPEC = make_spec([Shape(4, 64, 512)])
DEVICE = Device("A", "cpu", 2, 1 << 20)
KERNEL = KernelIdentity("dsv4-nvfp4", "0123", "torch 1", "driver 1")


def info_of(spec=SPEC, device=DEVICE, kernel=KERNEL):
    backend = create("")
    backend.device, backend.identity = lambda: device, lambda: kernel
    return run_info(spec, backend)


def key(spec=SPEC, device=DEVICE, kernel=KERNEL) -> str:
    (only,) = point_keys(spec, info_of(spec, device, kernel))
    return only


def other(value):
    return f"{value}x" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("name", [field.name for field in fields(Protocol)])
def test_every_number_of_the_protocol_changes_the_key(name):
    protocol = replace(QUICK, **{name: other(getattr(QUICK, name))})
    assert key(replace(SPEC, protocol=protocol)) != key()


@pytest.mark.parametrize("name", ["name", "arch", "num_sms", "l2_bytes"])
def test_the_device_changes_the_key(name):
    assert key(device=replace(DEVICE, **{name: other(getattr(DEVICE, name))})) != key()


@pytest.mark.parametrize("name", ["family", "identity", "compiler", "driver"])
def test_the_kernel_changes_the_key(name):
    assert key(kernel=replace(KERNEL, **{name: other(getattr(KERNEL, name))})) != key()


@pytest.mark.parametrize("change", [{"seed": 1}, {"backend": "cpu"}], ids=str)
def test_what_the_spec_measures_with_changes_the_key(change):
    assert key(replace(SPEC, **change)) != key()


@pytest.mark.parametrize("name", Shape.__dataclass_fields__)
def test_every_part_of_the_shape_changes_the_key(name):
    (point,) = SPEC.points()
    value = getattr(point.shape, name)
    shape = replace(point.shape, **{name: not value if isinstance(value, bool) else value + 1})
    assert key(replace(SPEC, expanded=(Point(shape, point.plans),))) != key()


def test_the_plans_change_the_key_but_their_order_does_not():
    (point,) = SPEC.points()
    fewer = Point(point.shape, point.plans[1:])
    turned = Point(point.shape, point.plans[::-1])
    assert key(replace(SPEC, expanded=(fewer,))) != key()
    assert key(replace(SPEC, expanded=(turned,))) == key()


@pytest.mark.parametrize(
    "change", [{"name": "b"}, {"description": "b"}, {"path": "b"}, {"text": "b"}, {"time_budget_seconds": 9.0}], ids=str
)
def test_what_the_spec_is_called_and_how_long_it_may_take_does_not(change):
    assert key(replace(SPEC, **change)) == key()


def test_a_key_is_safe_in_a_journal_and_keys_keep_the_order_of_the_points():
    spec = make_spec()
    keys = point_keys(spec, info_of(spec))
    assert list(keys.values()) == spec.points()
    assert all(re.fullmatch("[0-9a-f]{12}-[0-9a-f]{24}", key) for key in keys)


def test_a_key_starts_with_an_origin_that_can_be_worked_out_from_the_file_of_the_run(tmp_path):
    run, info = RunDirectory(tmp_path), info_of()
    run.write_info(info)
    assert key().startswith(f"{run.read_info().origin}-")
    (other_point,) = point_keys(make_spec([Shape(8, 64, 512)]), info)
    assert other_point.startswith(f"{info.origin}-") and other_point != key()
