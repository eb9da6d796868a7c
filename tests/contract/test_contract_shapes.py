"""The contract over shapes that hypothesis draws, and the laws that tie one call to another."""

import pytest
import torch
from contract_inputs import make_inputs
from contract_matrix import AXES, Case, check_case, run_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cake_tune.mla import check_accuracy
from cake_tune.planner.shape import HEAD_COUNTS, decode_tiles, distinct_splits, num_chunks, resolve_splits

drawn = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def drawn_cases(draw):
    """Any case of up to 320 candidates: sizes free, the other axes as in the matrix."""
    heads = draw(st.sampled_from(HEAD_COUNTS))
    extra = draw(st.just(0) | st.integers(1, 120))
    named = {
        axis: draw(st.sampled_from(AXES[axis]))
        for axis in ("layout", "lengths", "mask", "sink", "lse_scale", "indices_rank")
    }
    return Case(
        kernel=draw(st.sampled_from(["decode", "prefill"] if heads >= 16 else ["decode"])),
        num_tokens=draw(st.integers(1, 5)),
        num_heads=heads,
        topk=draw(st.integers(1, 200)),
        extra_topk=extra,
        page_size=draw(st.integers(1, 130)),
        extra_page_size=draw(st.integers(1, 130)),
        padding=16 * draw(st.integers(0, 20)),
        splits=draw(st.integers(1, 6)),
        tiles=draw(st.sampled_from(["fewest", "most"])),
        **named,
    )


@drawn
@given(case=drawn_cases())
def test_any_shape_meets_the_contract(case, device):
    """No combination of sizes is special."""
    check_case(case, device)


@drawn
@given(topk=st.integers(1, 700), splits=st.integers(1, 20))
def test_requested_splits_resolve(topk, splits, device):
    """What is returned is the resolved plan: the request rounded down to blocks of equal chunks."""
    case = Case(topk=topk, splits=splits, tiles="fewest")
    plan = run_case(case, make_inputs(case, device))
    assert (plan["num_splits"], plan["chunks_per_block"]) == resolve_splits(num_chunks(topk), splits)


@pytest.mark.parametrize("heads", HEAD_COUNTS)
def test_plans_agree(heads, device):
    """Tiles change no bit, splits change only roundings: every plan of a shape gives one answer."""
    case = Case(num_tokens=2, num_heads=heads, topk=300, extra_topk=70, sink="finite", mask="random")
    inputs = make_inputs(case, device)
    answers = []
    for splits, _ in distinct_splits(case.chunks):
        for tiles in decode_tiles(heads):
            inputs.poison()
            inputs.arguments.pop("head_tiles", None)
            run_case(Case(**{**_values(case), "splits": splits, "tiles": tiles}), inputs)
            answers.append((inputs.output.clone(), inputs.out_lse.clone()))
    for answer in answers[1:]:
        check_accuracy(*answer, *answers[0])


@drawn
@given(seed=st.integers(0, 1000))
def test_order_of_candidates_does_not_matter(seed, device):
    """Attention is over a set: shuffled indices give the same output up to rounding."""
    case = Case(num_tokens=1, topk=150, sink="finite")
    inputs = make_inputs(case, device)
    run_case(case, inputs)
    expected = inputs.output.clone(), inputs.out_lse.clone()
    order = torch.randperm(150, generator=torch.Generator().manual_seed(seed))
    inputs.indices = inputs.indices[:, order.to(device)].contiguous()
    run_case(case, inputs)
    check_accuracy(inputs.output, inputs.out_lse, *expected)


@pytest.mark.parametrize("kernel", ["decode", "prefill"])
def test_extra_cache_is_more_of_the_same(kernel, device):
    """One softmax over both: splitting a list over two caches equals one cache with the whole list."""
    case = Case(kernel, num_tokens=2, num_heads=32, topk=192, splits="one", tiles=1)
    inputs = make_inputs(case, device)
    run_case(case, inputs)
    expected = inputs.output.clone(), inputs.out_lse.clone()
    both = inputs.indices
    inputs.indices = both[:, :128].contiguous()
    inputs.arguments |= {"extra_kv_cache": inputs.cache, "extra_indices": both[:, 128:].contiguous()}
    run_case(case, inputs)
    check_accuracy(inputs.output, inputs.out_lse, *expected)


def _values(case):
    return {axis: getattr(case, axis) for axis in ("num_tokens", "num_heads", "topk", "extra_topk", "sink", "mask")}
