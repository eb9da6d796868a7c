"""Which method answers for unmeasured shapes, on devices whose truth is known."""

import numpy as np
import pytest
from simulated_sweeps import info_for, swept, true_regrets

from cake_tune.backends.simulated_device import PRESETS, random_device, simulated_device
from cake_tune.fit.collect import collect
from cake_tune.fit.cost_model import fit_cost_model
from cake_tune.fit.outside import modelled_regrets
from cake_tune.fit.table import build_table
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import nearest_published, shipped_tables
from cake_tune.planner.shape import Shape
from cake_tune.planner.table import load_table, save_table

PUBLISHED = {table.device.num_sms: table for table in shipped_tables()}
SHAPES = [Shape(t, h, k) for h in (16, 32, 64, 128) for k in (128, 512, 1024) for t in (1, 2, 4, 8, 16, 32, 64, 128)]
OTHERS = [Shape(t, h, k) for h in (16, 48, 80, 96) for k in (192, 768, 1536) for t in (1, 3, 11, 40, 90)]


@pytest.mark.parametrize("device", [PRESETS["h200"], random_device(3)], ids=lambda d: d.name)
def test_on_devices_with_one_per_cent_of_noise_the_table_generalises(device):
    in_force = nearest_published(device.num_sms)
    table = build_table(swept(device, SHAPES, in_force), info_for(device), in_force)
    assert np.mean(true_regrets(device, SHAPES, table)) <= 0.005
    assert np.mean(true_regrets(device, OTHERS, table)) <= 0.01
    assert table.outside.groups == "cost_model"
    assert table.certificate.held_out.mean <= 0.01
    scores = {score.method: score.groups.mean for score in table.outside.scores}
    assert scores["cost_model"] < scores["rules"]
    assert "cost model, mean regret" in table.outside.why


@pytest.mark.parametrize(
    ("name", "num_sms", "start"), [("rtx-pro-6000", 188, 48), ("rtx-5090", 170, 188), ("gb10", 48, 170)]
)
def test_an_optimum_that_follows_published_rules_gives_exactly_these_and_no_exceptions(name, num_sms, start, tmp_path):
    device, in_force = simulated_device(f"ruled:{name}"), PUBLISHED[start]
    heads, topks = (16, 32, 64, 96, 128), (64, 128, 512, 576, 1024)
    shapes = [Shape(t, h, k) for h in heads for k in topks for t in (1, 2, 4, 8, 12, 16, 24, 32, 64, 96, 128)]
    table = build_table(swept(device, shapes, in_force), info_for(device), in_force)
    assert table.rules == PUBLISHED[num_sms].rules
    assert table.exceptions == ()
    assert (table.outside.groups, table.outside.tokens, table.outside.cost_model) == ("rules", "rules", None)
    save_table(table, tmp_path / "table.json")
    assert load_table(tmp_path / "table.json") == table


def test_measured_shapes_are_answered_as_measured_whatever_answers_outside():
    device = random_device(5)
    in_force = nearest_published(device.num_sms)
    records = list(swept(device, [shape for shape in SHAPES if shape.num_heads != 32], in_force))
    table = build_table(records, info_for(device), in_force)
    assert table.outside.cost_model is not None
    for record in records:
        shape = record.shape
        decision = decide(table, num_tokens=shape.num_tokens, num_heads=shape.num_heads, topk=shape.topk)
        assert decision.source == "measured" and decision.method is None
    decision = decide(table, num_tokens=5, num_heads=48, topk=700)
    assert (decision.source, decision.method) == ("rule", "cost_model")
    decision = decide(table, num_tokens=5, num_heads=48, topk=4000)
    assert (decision.source, decision.method) == ("extrapolated", "cost_model")


def test_too_little_to_leave_out_gives_no_method():
    device = random_device(5)
    in_force = nearest_published(device.num_sms)
    few = [Shape(t, 64, k) for t in (1, 16) for k in (128, 512)]
    assert build_table(swept(device, few, in_force), info_for(device), in_force).outside is None


def test_a_model_is_judged_by_the_plans_that_have_a_time():
    device = random_device(3)
    samples = collect(swept(device, SHAPES, nearest_published(device.num_sms)))
    lost = modelled_regrets(samples, fit_cost_model(samples, device.num_sms), device.num_sms)
    assert lost.shape == (len(SHAPES),)
    assert (lost >= 0).all() and lost.mean() < 0.01
