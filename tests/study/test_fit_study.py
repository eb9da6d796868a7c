"""The fit study in short: the figures of a few simulated devices, and that the same devices give the same bytes."""

from statistics import fmean

import pytest

from cake_tune.backends.simulated_device import simulated_device
from cake_tune.fit.crossover import Crossover
from cake_tune.planner.registry import nearest_published
from cake_tune.planner.shape import Plan, Shape
from cake_tune.spec import Point
from cake_tune.study.fit.crossings import crossings
from cake_tune.study.fit.evidence import Evidence, figures_of
from cake_tune.study.fit.rivals import compete
from cake_tune.study.fit.simulated import Subject
from cake_tune.study.fit.size import SHORT, Size
from cake_tune.study.fit.skus import SKUS, Recovered, recovered
from cake_tune.study.fit.subject import study_subject
from cake_tune.study.fit.write import render, write_fit_study, write_tables

SEEDS = (1, 9)
TINY = Size(tokens=(1, 4, 16, 64), heads=(16, 128), topks=(128, 512), held_out=5, contested=2)


def subject(name):
    device = simulated_device(name)
    return Subject(device, nearest_published(device.num_sms))


@pytest.fixture(scope="module")
def studied():
    return [study_subject(subject(f"random:{seed}"), SHORT, seed) for seed in SEEDS]


def test_crossovers_of_random_devices_are_within_a_step_of_the_truth(studied):
    found = [each for device in studied for each in device.crossings]
    assert any(each.crosses for each in found)
    assert fmean(abs(each.steps) <= 1 for each in found) >= 0.95


def test_tables_of_random_devices_lose_little_on_measured_and_on_held_out_shapes(studied):
    assert fmean(fmean(each.measured) for each in studied) <= 0.005
    assert fmean(fmean(each.held_out) for each in studied) <= 0.01
    assert fmean(fmean(each.in_force) for each in studied) > 0.05


def test_an_adaptive_search_needs_a_fifth_and_loses_no_more(studied):
    assert fmean(each.searched.pairs for each in studied) <= 0.2
    assert fmean(each.search_excess for each in studied) <= 0.005
    for each in studied:
        assert each.searched.expected <= 0.003


@pytest.mark.parametrize("sku", SKUS)
def test_a_device_that_follows_published_rules_gives_them_back(sku):
    start = "gb10" if sku != "gb10" else "rtx-5090"
    assert recovered(sku, start, SHORT).exact


def test_the_race_flips_less_than_argmin_of_one_visit():
    scores = {each.selector: each for each in compete([subject(f"random:{seed}") for seed in range(4)], SHORT)}
    assert scores["race"].flips < scores["argmin:1:mean"].flips
    assert scores["race"].regret.mean < 0.005


@pytest.fixture(scope="module")
def evidence():
    subjects = [subject("random:1")]
    small = tuple(study_subject(each, TINY, 1) for each in subjects)
    skus = (Recovered("gb10", "rtx-5090", ("splitting.min_cpb: 2 became 1",), 3),)
    return Evidence(TINY, small, small, skus, tuple(compete(subjects, TINY)))


def test_the_same_evidence_gives_the_same_bytes(evidence, tmp_path):
    for name in ("a", "b"):
        write_fit_study(evidence, tmp_path / name, "cake-tune study fit")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert {path.suffix for path in files} == {".csv", ".md", ".png"}
    assert len(files) == 10
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


def test_measuring_again_gives_the_same_records():
    points = TINY.grid()[:4]
    assert subject("random:3").measure(points) == subject("random:3").measure(points)
    assert subject("random:3").measure(points) != subject("random:3").measure(points, "another day")


def test_a_missed_target_is_said(evidence, tmp_path):
    figures = figures_of(evidence)
    (sku,) = (figure for figure in figures if figure.name == "SKU rules given back")
    assert (sku.value, sku.verdict) == (0, "missed")
    text = render(evidence, figures, write_plots(evidence, tmp_path), "x")
    assert "| SKU rules given back | 0.00 % | >= 100 % | **missed** |" in text
    assert "splitting.min_cpb: 2 became 1" in text


def write_plots(evidence, directory):
    from cake_tune.study.fit.plots import draw_all

    return draw_all(evidence, directory)


def test_every_device_and_crossover_is_a_row(evidence, tmp_path):
    write_tables(evidence, figures_of(evidence), tmp_path)
    rows = (tmp_path / "devices.csv").read_text().splitlines()
    assert len(rows) == 3
    assert len((tmp_path / "crossovers.csv").read_text().splitlines()) == 1 + 2 * len(evidence.devices[0].crossings)


def test_a_crossing_counts_the_grid_points_that_go_to_decode():
    decode, prefill = Plan("decode", 1, 1, 8), Plan("prefill", 1, 1, 8)
    points = [Point(Shape(tokens, 16, 512), (decode, prefill)) for tokens in (1, 2, 4, 8)]
    true = [{decode: us, prefill: 10.0} for us in (5.0, 9.0, 11.0, 30.0)]
    found = Crossover(16, 512, 0, 1, 1, 2, (), (1, 2, 4, 8), (0.7, 0.1, -0.1, -1.1))
    (crossing,) = crossings([found], points, true)
    assert (crossing.true, crossing.fitted, crossing.steps, crossing.crosses) == (2, 1, -1, True)
    assert crossing.excess == pytest.approx(0.105 / 4, rel=0.01)
