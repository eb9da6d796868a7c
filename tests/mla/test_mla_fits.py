"""The glance that passes calls without words: never where the checks would object, and always where it should."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from mla_arguments import OPS, call, valid_arguments

from cake_tune.errors import ContractError
from cake_tune.mla import checks, ops
from cake_tune.mla.fits import fits
from cake_tune.mla.memory import are_apart, check_apart

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=9)
OPTIONAL = ("topk_length", "attn_sink", "extra_topk_length")


@given(written=SPANS, read=SPANS)
@example(written=[(0, 4)], read=[(4, 4), (4, 4), (8, 1)])
@example(written=[(4, 4), (8, 4)], read=[(0, 4), (0, 20)])
def test_two_searches_find_what_every_pair_would(written, read):
    """The quick test of memory agrees with the one that looks at every pair to name one."""
    written, read = ([(start, start + size) for start, size in spans] for spans in (written, read))
    everything = written + read
    apart = are_apart([start for start, _ in everything], [stop for _, stop in everything], written)
    named = [{str(number): span for number, span in enumerate(spans)} for spans in (written, read)]
    named[1] = {f"read {name}": span for name, span in named[1].items()}
    if apart:
        check_apart(*named)
    else:
        with pytest.raises(ContractError, match="expected memory of its own"):
            check_apart(*named)


@pytest.fixture
def resolved(monkeypatch):
    """A function that gives the resolved call of arguments without running it, or checking its tensors."""

    def resolve(kernel, **arguments):
        seen = []
        with monkeypatch.context() as patch:
            patch.setattr(ops, "check_call", seen.append)
            patch.setattr(ops, "launch", lambda _: None)
            call(kernel, **arguments)
        return seen[0]

    return resolve


@pytest.mark.parametrize("kernel", OPS)
def test_right_calls_pass_at_a_glance(kernel, resolved):
    """With everything, with the least, with longer vectors than needed, and with one tensor given twice."""
    arguments = valid_arguments(kernel)
    extra = {name: None for name in arguments if name.startswith("extra_")}
    longer = {name: torch.cat((arguments[name], arguments[name])) for name in OPTIONAL}
    for changes in (
        {},
        extra,
        dict.fromkeys(OPTIONAL),
        extra | dict.fromkeys(OPTIONAL),
        longer,
        {"topk_length": arguments["extra_topk_length"]},
        {"extra_kv_cache": arguments["kv_cache"]},
    ):
        assert fits(resolved(kernel, **(arguments | changes)))


@pytest.mark.parametrize("kernel", OPS)
def test_what_is_not_plain_is_left_to_the_checks(kernel, resolved):
    """No tokens, or a subclass of Tensor: no verdict at a glance, none against them after the checks."""
    empty = resolved(kernel, **valid_arguments(kernel, num_tokens=0))
    parameter = torch.nn.Parameter(torch.zeros(32), requires_grad=False)
    for one in (empty, resolved(kernel, **valid_arguments(kernel, attn_sink=parameter))):
        assert not fits(one)
        checks.check_call(one)


CHANGES = {
    "elsewhere": lambda tensor: tensor.to("meta"),
    "wider": lambda tensor: tensor.double() if tensor.is_floating_point() else tensor.long(),
    "shorter": lambda tensor: tensor[:-1],
    "narrower": lambda tensor: tensor[..., :-1].contiguous(),
    "deeper": lambda tensor: tensor.unsqueeze(0),
    "strided": lambda tensor: torch.stack((tensor, tensor), dim=-1)[..., 0],
    "misaligned": lambda tensor: (
        torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape).copy_(tensor)
    ),
    "missing": lambda tensor: None,
    "list": lambda tensor: [tensor],
}


@pytest.mark.parametrize("kernel", OPS)
@pytest.mark.parametrize("change", CHANGES)
def test_no_glance_passes_what_the_checks_refuse(kernel, change, resolved, monkeypatch):
    """Every tensor changed in every way: the call fits only if the explaining checks find nothing."""
    arguments = valid_arguments(kernel)
    verdicts = set()
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and (name, change) != ("q", "elsewhere"):  # where q is decides who runs it
            try:
                one = resolved(kernel, **(arguments | {name: CHANGES[change](value)}))
            except ContractError:
                continue
            glance = fits(one)
            monkeypatch.setattr(checks, "fits", lambda _: False)
            try:
                checks.check_call(one)
            except ContractError:
                assert not glance, f"{name}, {change}"
                verdicts.add("refused")
            else:
                verdicts.add("passed")
    assert "refused" in verdicts
