from dataclasses import replace

import numpy as np
import pytest
from synthetic_points import POWERS, following, records_of

from cake_tune.fit.choices import choices_of
from cake_tune.fit.collect import collect
from cake_tune.fit.rules import fit_rules
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit, Share

PUBLISHED = {table.device.num_sms: table.rules for table in shipped_tables()}


@pytest.mark.parametrize("num_sms", [188, 170, 48])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_times_that_follow_the_rules_in_force_leave_every_constant(num_sms, noise):
    samples = collect(records_of(following(PUBLISHED[num_sms], num_sms), noise=noise))
    assert fit_rules(samples, PUBLISHED[num_sms], num_sms) == PUBLISHED[num_sms]


def test_thresholds_of_another_device_are_recovered_where_the_grid_holds_them():
    truth, start = PUBLISHED[188], PUBLISHED[170]
    tokens = (1, 2, 4, 7, 8, 9, 16, 17, 32, 33, 64)
    samples = collect(records_of(following(truth, 188), tokens=tokens, topks=(128, 512)))
    assert fit_rules(samples, start, 188).decode_max_tokens == truth.decode_max_tokens


def test_a_changed_split_cap_is_found():
    start = PUBLISHED[188]
    truth = replace(start, splitting=replace(start.splitting, grid_cap=Share(1, 4), stream_cap=Share(1, 4)))
    samples = collect(records_of(following(truth, 188), tokens=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32)))
    fitted = fit_rules(samples, start, 188)
    decode = choices_of(samples, "decode")
    assert fitted.tile_bands == start.tile_bands
    assert fitted.splitting.grid_cap.of(188) <= 47
    assert regret(fitted, samples, 188) == 0
    assert len(decode) == len(samples)


def test_splits_that_pay_for_long_lists_alone_become_constants():
    """Neither a higher cap nor unsplit short lists pay without the other, so that no single constant can move."""
    start = PUBLISHED[48]
    both = replace(start.splitting, grid_cap=Share(2, 2), stream_cap=Share(2, 2), whole_chunks=8)
    truth = replace(start, splitting=both)
    shapes = {"tokens": (1, 2, 4, 8), "heads": (16, 64), "topks": (256, 384, 512, 1024)}
    samples = collect(records_of(following(truth, 2), **shapes))
    assert regret(start, samples, 2) > 0
    fitted = fit_rules(samples, start, 2)
    assert regret(fitted, samples, 2) == 0
    assert fitted.splits(1, 16, 16, 2, max_splits=16, head_tiles=1) == (2, 8)
    assert fitted.splits(1, 16, 8, 2, max_splits=16, head_tiles=1) == (1, 8)


def test_splits_that_powers_of_two_never_try_are_found():
    start = PUBLISHED[188]
    truth = replace(start, splitting=replace(start.splitting, multiples=(2, 3, 4, 8, 16)))
    samples = collect(records_of(following(truth, 188), tokens=range(1, 40), heads=(16, 64), topks=(512, 768)))
    assert regret(start, samples, 188) > 0
    assert fit_rules(samples, start, 188).splitting.multiples == truth.splitting.multiples


def test_tiles_that_never_pay_lose_their_bands():
    start = PUBLISHED[188]
    samples = collect(records_of(following(replace(start, tile_bands=()), 188)))
    fitted = fit_rules(samples, start, 188)
    assert all(
        fitted.head_tiles(t, h, chunks, 188) == 1 for t in POWERS for h in (32, 64, 128) for chunks in (2, 8, 16)
    )


def test_a_class_of_shapes_without_a_limit_gets_one_when_that_pays():
    truth = replace(PUBLISHED[188], decode_max_tokens=(*PUBLISHED[188].decode_max_tokens, DecodeLimit(num_tokens=8)))
    tokens = (1, 2, 4, 8, 9, 16, 32)
    samples = collect(records_of(following(truth, 188), tokens=tokens, topks=(128, 256, 512)))
    assert fit_rules(samples, PUBLISHED[188], 188).decode_max_tokens == truth.decode_max_tokens


def test_what_was_not_measured_stays():
    start = PUBLISHED[188]
    records = list(records_of(following(PUBLISHED[48], 188), heads=(16,), topks=(512,)))
    fitted = fit_rules(collect(records), start, 188)
    assert fitted.tile_bands == start.tile_bands
    assert fitted.prefill_bands == start.prefill_bands
    assert fitted.decode_max_tokens[:2] == start.decode_max_tokens[:2]


def test_one_kernel_alone_leaves_the_rest():
    start = PUBLISHED[188]
    records = list(records_of(following(PUBLISHED[48], 188)))
    decode_only = [
        replace(record, rows=tuple(row for row in record.rows if row.plan.kernel == "decode")) for record in records
    ]
    fitted = fit_rules(collect(decode_only), start, 188)
    assert fitted.decode_max_tokens == start.decode_max_tokens
    assert fitted.prefill_bands == start.prefill_bands
    assert fitted.splitting != start.splitting


def test_noise_without_a_difference_seldom_moves_anything():
    start = PUBLISHED[188]
    moved = 0
    for seed in range(30):
        samples = collect(records_of(lambda shape, plan: 10.0, noise=0.01, seed=seed, tokens=(1, 4, 16, 64)))
        fitted = fit_rules(samples, start, 188)
        moved += replace(fitted, decode_max_tokens=()) != replace(start, decode_max_tokens=())
    # Four of a hundred journals move one of some 35 constants; five of thirty would be another rate.
    assert moved < 5


def test_choices_nobody_measured_cost_as_much_as_the_slowest():
    samples = collect(records_of(lambda shape, plan: float(plan.num_splits), heads=(16,), topks=(256,), tokens=(1, 2)))
    decode = choices_of(samples, "decode")
    measured = decode.regret[0][decode.row[0] >= 0]
    assert (decode.regret[0][decode.row[0] < 0] == measured.max()).all()
    assert measured.max() == pytest.approx(np.log(4))


def regret(rules, samples, num_sms):
    """Total regret of the rules' decode plans, point by point through the scalar rules."""
    total = 0.0
    for point in range(len(samples)):
        key, chunks = samples.key(point), int(samples.chunks[point])
        tiles = rules.head_tiles(key.num_tokens, key.num_heads, chunks, num_sms)
        splits = rules.splits(key.num_tokens, key.num_heads, chunks, num_sms, max_splits=16, head_tiles=tiles)
        times = {samples.plans[samples.plan[row]]: samples.log_time[row] for row in samples.rows(point)}
        decode = {plan: time for plan, time in times.items() if plan.kernel == "decode"}
        (chosen,) = [plan for plan in decode if (plan.head_tiles, plan.num_splits) == (tiles, splits[0])]
        total += decode[chosen] - min(decode.values())
    return round(total, 9)
