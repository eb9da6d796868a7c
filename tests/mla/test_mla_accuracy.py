"""The judgement itself: what it lets pass and what it does not."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.errors import WrongResultError
from cake_tune.mla import check_accuracy


def pair():
    """A reference and a result equal to it: 4 tokens, 8 heads."""
    rng = torch.Generator().manual_seed(0)
    reference = torch.randn(4, 8, 512, generator=rng) / 100
    lse = torch.randn(4, 8, generator=rng)
    return reference.clone(), lse.clone(), reference, lse


def test_equal_is_error_zero():
    """And BF16 rounding is an error well inside the bound."""
    output, lse, reference, reference_lse = pair()
    assert check_accuracy(output, lse, reference, reference_lse) == 0
    assert 1e-4 < check_accuracy(output.bfloat16(), lse, reference, reference_lse) < 3e-3


def test_zeros_do_not_pass_for_small_outputs():
    """The error is relative to the reference's own size: an absolute tolerance would pass this."""
    output, lse, reference, reference_lse = pair()
    with pytest.raises(WrongResultError, match="output: row"):
        check_accuracy(output * 0, lse, reference, reference_lse)


def test_one_bad_row_is_found_and_named():
    """A row off by 2 % disappears in the tensor's norm, not in its own."""
    output, lse, reference, reference_lse = pair()
    output[2, 5] *= 1.02
    with pytest.raises(WrongResultError, match=r"output: row \(token 2, head 5\) is off by 2\.00e-02"):
        check_accuracy(output, lse, reference, reference_lse)


def test_many_slightly_bad_rows_are_found():
    """Every row within its bound, the tensor not."""
    output, lse, reference, reference_lse = pair()
    with pytest.raises(WrongResultError, match=r"output: off by 8\.00e-03"):
        check_accuracy(output * 1.008, lse, reference, reference_lse)


def test_a_zero_row_must_be_zero():
    """Empty rows have no size to be relative to."""
    output, lse, reference, reference_lse = pair()
    output[1], reference[1] = 0, 0
    assert check_accuracy(output, lse, reference, reference_lse) == 0
    output[1, 0, 0] = 1e-20
    with pytest.raises(WrongResultError, match=r"token 1, head 0\) is off by inf"):
        check_accuracy(output, lse, reference, reference_lse)


@pytest.mark.parametrize(("value", "kind"), [(math.nan, "NaN"), (math.inf, r"\+inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize("name", ["output", "out_lse"])
def test_anomalies_come_before_tolerances(name, value, kind):
    """On one side only they are an error that says where; on both sides they are equal."""
    output, lse, reference, reference_lse = pair()
    (output if name == "output" else lse)[3, 1] = value
    with pytest.raises(WrongResultError, match=rf"{name}: \d+ elements are {kind} on one side only, first at \[3, 1"):
        check_accuracy(output, lse, reference, reference_lse)
    (reference if name == "output" else reference_lse)[3, 1] = value
    assert check_accuracy(output, lse, reference, reference_lse) == 0


def test_lse_is_judged_absolutely_plus_relatively():
    """2e-3 of each."""
    output, lse, reference, reference_lse = pair()
    reference_lse[:], lse[:] = 100.0, 100.2
    check_accuracy(output, lse, reference, reference_lse)
    lse[0, 0] = 100.21
    with pytest.raises(WrongResultError, match="out_lse: off by"):
        check_accuracy(output, lse, reference, reference_lse)


def test_no_tokens_are_no_error():
    """T = 0 has nothing to be wrong."""
    assert check_accuracy(torch.empty(0, 8, 512), torch.empty(0, 8), torch.empty(0, 8, 512), torch.empty(0, 8)) == 0


def test_an_error_that_cannot_be_told_does_not_pass():
    """1e300 squared is beyond float64: both norms are infinite, and nothing is known of their ratio."""
    output, lse, reference, reference_lse = (tensor.double() for tensor in pair())
    reference[0, 0, 0] = 1e300
    assert check_accuracy(reference, lse, reference, reference_lse) == 0
    with pytest.raises(WrongResultError, match="off by nan"):
        check_accuracy(output, lse, reference, reference_lse)


def fine_by_definition(output, lse, reference, reference_lse) -> bool:
    """The contract's words in numpy, one after the other."""
    out, want, out_lse, want_lse = (t.double().numpy() for t in (output, reference, lse, reference_lse))
    for got, expected in ((out, want), (out_lse, want_lse)):
        for kind in (np.isnan, np.isposinf, np.isneginf):
            if (kind(got) != kind(expected)).any():
                return False
    known = np.isfinite(want_lse)
    if (np.abs(out_lse[known] - want_lse[known]) > 2e-3 * (1 + np.abs(want_lse[known]))).any():
        return False
    finite = np.isfinite(want)
    out, want = np.where(finite, out, 0), np.where(finite, want, 0)
    error, size = np.linalg.norm(out - want, axis=-1), np.linalg.norm(want, axis=-1)
    return bool((error <= 1.25e-2 * size).all()) and bool(np.linalg.norm(error) <= 5e-3 * np.linalg.norm(size))


VALUES = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e-20])
FACTORS = st.sampled_from([1.001, 1.004, 1.006, 1.012, 1.014, -1.0])
PLACES = st.tuples(st.sampled_from([0, 1, 2, 3]), st.integers(0, 3), st.integers(0, 7), st.booleans())


@given(st.lists(st.tuples(PLACES, st.one_of(VALUES, FACTORS.map(lambda factor: (factor,)))), max_size=4))
def test_what_passes_is_what_the_contract_says(edits):
    """Whatever is put into rows, single elements and LSEs of either side, or of both."""
    tensors = pair()
    for (which, token, head, whole), value in edits:
        place = (token, head) if whole or which % 2 else (token, head, 7)
        if isinstance(value, tuple):
            tensors[which][place] *= value[0]
        else:
            tensors[which][place] = value
    if fine_by_definition(*tensors):
        assert check_accuracy(*tensors) <= 5e-3
    else:
        with pytest.raises(WrongResultError):
            check_accuracy(*tensors)
