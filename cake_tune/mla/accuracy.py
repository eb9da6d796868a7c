"""Judging a result against the reference by the contract's accuracy, relative to the reference's own size."""

import math

import torch
from torch import Tensor

from cake_tune.errors import WrongResultError

TENSOR_BOUND = 5e-3
"""Most of ||out - reference|| / ||reference|| over the whole output."""
ROW_BOUND = 1.25e-2
"""Most of the same for any one (token, head) row."""
LSE_BOUND = 2e-3
"""Most of the LSE's error, absolute plus relative."""


def check_accuracy(output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor) -> float:
    """The relative error of ``output`` over the tensor; ``WrongResultError`` where the contract's accuracy is missed.

    NaNs and infinities are compared before any tolerance: they must stand where the reference has them. Rows that are
    zero in the reference must be zero.
    """
    output, out_lse = output.double(), out_lse.double()
    reference, reference_lse = reference.double(), reference_lse.double()
    for name, got, expected in (("output", output, reference), ("out_lse", out_lse, reference_lse)):
        _same_anomalies(name, got, expected)
    _check_lse(out_lse, reference_lse)
    error = torch.linalg.vector_norm((output - reference).nan_to_num(), dim=-1)
    size = torch.linalg.vector_norm(reference.nan_to_num(), dim=-1)
    rows = torch.where(size > 0, error / size, torch.where(error > 0, math.inf, 0.0))
    if rows.numel() and float(rows.max()) > ROW_BOUND:
        token, head = divmod(int(rows.argmax()), rows.shape[1])
        raise WrongResultError(
            f"output: row (token {token}, head {head}) is off by {float(rows.max()):.2e} of its size, "
            f"expected at most {ROW_BOUND:.2e}"
        )
    whole = float(error.norm() / size.norm()) if float(size.norm()) > 0 else 0.0
    if whole > TENSOR_BOUND:
        raise WrongResultError(f"output: off by {whole:.2e} of its size, expected at most {TENSOR_BOUND:.2e}")
    return whole


def _same_anomalies(name: str, got: Tensor, expected: Tensor) -> None:
    for kind, test in (("NaN", torch.isnan), ("+inf", torch.isposinf), ("-inf", torch.isneginf)):
        wrong = test(got) != test(expected)
        if bool(wrong.any()):
            place = wrong.nonzero()[0].tolist()
            raise WrongResultError(
                f"{name}: {int(wrong.sum())} elements are {kind} on one side only, first at {place}: "
                f"got {float(got[tuple(place)])}, expected {float(expected[tuple(place)])}"
            )


def _check_lse(out_lse: Tensor, reference_lse: Tensor) -> None:
    finite = reference_lse.isfinite()
    error = (out_lse - reference_lse).abs()[finite]
    bound = LSE_BOUND + LSE_BOUND * reference_lse.abs()[finite]
    if bool((error > bound).any()):
        excess = float((error - bound).max())
        raise WrongResultError(f"out_lse: off by {excess:.2e} more than {LSE_BOUND} absolute plus relative")
