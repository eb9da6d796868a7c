"""The edge cases of the contract as checks that run on any device: ``check(device, kernel)`` for each in ``EDGES``."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from contract_inputs import ContractInputs, lay_out, make_inputs
from contract_matrix import Case, run_case
from torch import Tensor

from cake_tune.mla import check_accuracy, sparse_mla_reference

LOG2_E = math.log2(math.e)

Edge = Callable[[str, str], None]
EDGES: dict[str, Edge] = {}


def edge(check: Edge) -> Edge:
    """Register a check under its docstring's words."""
    EDGES[check.__name__] = check
    return check


def _base(kernel: str) -> Case:
    splits = "three" if kernel == "decode" else "one"
    return Case(kernel, num_tokens=3, num_heads=32, topk=300, splits=splits, tiles=1, page_size=48)


def _run(case: Case, inputs: ContractInputs) -> tuple[Tensor, Tensor]:
    inputs.poison()
    run_case(case, inputs)
    return inputs.output.clone(), inputs.out_lse.clone()


def _judge(case: Case, inputs: ContractInputs) -> None:
    output, lse = _run(case, inputs)
    reference = sparse_mla_reference(inputs.q, inputs.cache, inputs.indices, inputs.sm_scale, **inputs.arguments)
    check_accuracy(output, lse, *reference)


@edge
def empty_rows_write_zeros_and_minus_infinity(device: str, kernel: str) -> None:
    """Whatever lse_scale is, an empty row without a sink is zeros and -inf, never NaN; rows beside it are right."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    inputs.indices[1] = -5
    for scale in (1.0, 0.0, -3.0):
        inputs.arguments["lse_scale"] = scale
        output, lse = _run(case, inputs)
        assert torch.equal(output[1], torch.zeros_like(output[1]))
        assert torch.equal(lse[1], torch.full_like(lse[1], -math.inf))
        _judge(case, inputs)


@edge
def empty_rows_with_a_sink_have_the_sinks_lse(device: str, kernel: str) -> None:
    """An empty row's LSE is sink * log2(e) * lse_scale, also for lse_scale 0 and negative."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    inputs.indices[:] = -1
    sink = torch.linspace(-5, 5, case.num_heads, device=device)
    inputs.arguments["attn_sink"] = sink
    for scale in (1.0, 0.0, -2.0):
        inputs.arguments["lse_scale"] = scale
        output, lse = _run(case, inputs)
        assert torch.equal(output, torch.zeros_like(output))
        torch.testing.assert_close(lse, (sink * LOG2_E * scale).expand_as(lse), rtol=1e-6, atol=1e-6)


@edge
def length_zero_beside_full_rows(device: str, kernel: str) -> None:
    """Lengths count per token and cache: 0 empties one token's cache and leaves its neighbours whole."""
    case = replace(_base(kernel), extra_topk=100)
    inputs = make_inputs(case, device)
    inputs.arguments["topk_length"] = torch.tensor([300, 0, 0], dtype=torch.int32, device=device)
    inputs.arguments["extra_topk_length"] = torch.tensor([100, 100, 0], dtype=torch.int32, device=device)
    _judge(case, inputs)
    assert torch.equal(inputs.output[2], torch.zeros_like(inputs.output[2]))


@edge
def a_sink_of_minus_infinity_is_no_sink(device: str, kernel: str) -> None:
    """Bit for bit."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    inputs.indices[0] = -1
    without = _run(case, inputs)
    inputs.arguments["attn_sink"] = torch.full((case.num_heads,), -math.inf, device=device)
    for got, expected in zip(_run(case, inputs), without, strict=True):
        assert torch.equal(got, expected)


@edge
def a_sink_far_above_takes_everything(device: str, kernel: str) -> None:
    """Exponents beyond float32 neither overflow nor turn to NaN: the output vanishes and the LSE is the sink's."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    for sink in (90.0, 1e4, 1e30):
        inputs.arguments["attn_sink"] = torch.full((case.num_heads,), sink, device=device)
        output, lse = _run(case, inputs)
        assert float(output.abs().max()) < 1e-30
        torch.testing.assert_close(lse, torch.full_like(lse, sink * LOG2_E))


@edge
def a_sink_halves_what_it_equals(device: str, kernel: str) -> None:
    """A sink at the LSE of the slots takes half of the weight, once, however many splits share the row."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    output, lse = _run(case, inputs)
    inputs.arguments["attn_sink"] = lse[0] / LOG2_E
    halved, joined = _run(case, inputs)
    torch.testing.assert_close(halved[0].float(), output[0].float() / 2, rtol=2e-2, atol=1e-4)
    torch.testing.assert_close(joined[0], lse[0] + 1, rtol=1e-4, atol=1e-4)


@edge
def large_logits_stay_finite(device: str, kernel: str) -> None:
    """Logits in the thousands, of either sign, give the softmax of their differences."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    for scale in (8.0, -8.0):
        inputs.sm_scale = scale
        output, lse = _run(case, inputs)
        assert bool(output.isfinite().all() & lse.isfinite().all())
        assert float(lse.abs().max()) > 1000


@edge
def the_same_call_gives_the_same_bits(device: str, kernel: str) -> None:
    """Whichever worker or CTA ran what, in whatever order."""
    case = replace(_base(kernel), num_tokens=9, extra_topk=100, sink="mixed", mask="random")
    inputs = make_inputs(case, device)
    first = _run(case, inputs)
    for _ in range(5):
        for got, expected in zip(_run(case, inputs), first, strict=True):
            assert torch.equal(got, expected)


@edge
def every_view_of_the_cache_gives_the_same_bits(device: str, kernel: str) -> None:
    """3-D, HND, NHD, padded by any multiple of 16 or not: one result."""
    for page_size in (1, 48, 64):
        case = replace(_base(kernel), page_size=page_size)
        inputs = make_inputs(case, device)
        packed = inputs.cache
        expected = _run(case, inputs)
        for layout in ("3-D", "HND", "NHD"):
            for padding in (0, 16, 48, 4096):
                inputs.cache = lay_out(packed, layout, padding)
                for got, wanted in zip(_run(case, inputs), expected, strict=True):
                    assert torch.equal(got, wanted), (page_size, layout, padding)


@edge
def a_view_may_start_inside_its_storage(device: str, kernel: str) -> None:
    """A cache that is a slice of a larger pool is read from its own first page on."""
    case = _base(kernel)
    inputs = make_inputs(case, device)
    expected = _run(case, inputs)
    pool = torch.full((inputs.cache.shape[0] + 3, *inputs.cache.shape[1:]), 0xFF, dtype=torch.uint8, device=device)
    pool[2:-1] = inputs.cache
    inputs.cache = pool[2:-1]
    for got, wanted in zip(_run(case, inputs), expected, strict=True):
        assert torch.equal(got, wanted)


@edge
def no_tokens_do_nothing(device: str, kernel: str) -> None:
    """T = 0 is accepted, needs no scratch, and launches nothing."""
    case = replace(_base(kernel), num_tokens=0)
    inputs = make_inputs(case, device)
    if kernel == "decode":
        inputs.mid_out = inputs.mid_lse = None
    run_case(case, inputs)
    assert inputs.output.shape[0] == 0


@edge
def scratch_beyond_the_plan_is_left_alone(device: str, kernel: str) -> None:
    """A plan writes the splits it has and no others; an unsplit plan and prefill write no scratch at all."""
    for splits in (3, 1):
        case = replace(_base(kernel), splits=splits)
        inputs = make_inputs(case, device)
        _run(case, inputs)
        used = splits if kernel == "decode" and splits > 1 else 0
        for scratch in (inputs.mid_out, inputs.mid_lse):
            assert bool(scratch[:, :, used:].isnan().all())
            assert not bool(scratch[:, :, :used].isnan().any())


@edge
def inference_mode_changes_nothing(device: str, kernel: str) -> None:
    """Made and called inside it, made inside and called outside, made outside and called inside: the same bits."""
    case = replace(_base(kernel), extra_topk=100, sink="finite", lengths="random", mask="random")
    plain = make_inputs(case, device)
    expected = _run(case, plain)
    with torch.inference_mode():
        inputs = make_inputs(case, device)
        answers = [_run(case, inputs), _run(case, plain)]
        inputs.poison()
    run_case(case, inputs)
    with torch.no_grad():
        run_case(case, inputs)
    answers.append((inputs.output, inputs.out_lse))
    plain.q.requires_grad_()
    answers.append(_run(case, plain))
    for answer in answers:
        for got, wanted in zip(answer, expected, strict=True):
            assert torch.equal(got, wanted)


@edge
def partials_are_those_of_their_chunks(device: str, kernel: str) -> None:
    """Split n holds chunk n: chunks count 64 candidates, main before extra, each cache's tail padded for itself."""
    if kernel == "prefill":
        return
    case = Case(num_tokens=2, num_heads=32, topk=100, extra_topk=70, sink="finite", lse_scale=-2.0, splits="most")
    inputs = make_inputs(case, device)
    plan = run_case(case, inputs)
    assert (plan["num_splits"], plan["chunks_per_block"]) == (4, 1)
    main, extra = (
        (inputs.cache, inputs.indices),
        (inputs.arguments["extra_kv_cache"], inputs.arguments["extra_indices"]),
    )
    sources = [(main, 0, 64), (main, 64, 100), (extra, 0, 64), (extra, 64, 70)]
    for split, ((cache, indices), start, end) in enumerate(sources):
        reference = sparse_mla_reference(inputs.q, cache, indices[:, start:end], inputs.sm_scale)
        check_accuracy(inputs.mid_out[:, :, split], inputs.mid_lse[:, :, split], *reference)
