"""Judging a result against the reference by the contract's accuracy, relative to the reference's own size."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cake_tune.errors import WrongResultError


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a result may be from the reference; the defaults are the contract's.

    ``tensor``: most of ||out - reference|| / ||reference|| over the whole output. ``row``: most of the same for any one
    (token, head) row. ``lse``: most of the LSE's error, absolute plus relative.
    """

    tensor: float = 5e-3
    row: float = 1.25e-2
    lse: float = 2e-3


CONTRACT = Bounds()


def check_accuracy(
    output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor, bounds: Bounds = CONTRACT
) -> float:
    """The relative error of ``output`` over the tensor; ``WrongResultError`` where ``bounds`` are missed.

    NaNs and infinities are compared before any tolerance: they must stand where the reference has them. Rows that are
    zero in the reference must be zero.
    """
    fine, whole = _quickly(output.double(), out_lse.double(), reference, reference_lse.double(), bounds)
    if fine:
        return whole
    return _thoroughly(output.double(), out_lse.double(), reference.double(), reference_lse.double(), bounds)


def _quickly(
    output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor, bounds: Bounds
) -> tuple[bool, float]:
    """Whether it is plain that nothing is wrong, and the relative error over the tensor.

    Few operators, and a GPU is waited for only once: a sweep judges each plan twice. What is NaN or infinite makes the
    comparisons false, but for an LSE that is as infinite as its reference: the other cases are for ``_thoroughly``.
    """
    error = torch.linalg.vector_norm(output - reference, dim=-1)
    size = torch.linalg.vector_norm(reference, dim=-1, dtype=torch.float64)
    lse_excess = (out_lse - reference_lse).abs() - bounds.lse * reference_lse.abs()
    fine = (error <= bounds.row * size).all() & ((lse_excess <= bounds.lse) | (out_lse == reference_lse)).all()
    rows_and_lse, all_error, all_size = torch.stack((fine.double(), error.norm(), size.norm())).tolist()
    whole = all_error / all_size if all_size else all_error
    return bool(rows_and_lse) and whole <= bounds.tensor, whole


def _thoroughly(output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor, bounds: Bounds) -> float:
    """The relative error over the tensor; ``WrongResultError`` for the first thing that is wrong."""
    for name, got, expected in (("output", output, reference), ("out_lse", out_lse, reference_lse)):
        _same_anomalies(name, got, expected)
    _check_lse(out_lse, reference_lse, bounds.lse)
    error, size = _row_norms(output, reference)
    rows = _of_size(error, size)
    if rows.numel() and not float(rows.max()) <= bounds.row:  # nor NaN, of sizes beyond float64
        token, head = divmod(int(rows.argmax()), rows.shape[1])
        raise WrongResultError(
            f"output: row (token {token}, head {head}) is off by {float(rows.max()):.2e} of its size, "
            f"expected at most {bounds.row:.2e}"
        )
    whole = float(_of_size(error.norm(), size.norm()))
    if not whole <= bounds.tensor:
        raise WrongResultError(f"output: off by {whole:.2e} of its size, expected at most {bounds.tensor:.2e}")
    return whole


def _row_norms(output: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Per (token, head): the norm of the error, and that of the reference, where it is finite."""
    error = torch.linalg.vector_norm((output - reference).nan_to_num(0.0, 0.0, 0.0), dim=-1)
    return error, torch.linalg.vector_norm(reference.nan_to_num(0.0, 0.0, 0.0), dim=-1)


def _of_size(error: Tensor, size: Tensor) -> Tensor:
    """Each row's error over its size; rows without a size must have no error."""
    return torch.where(size > 0, error / size, torch.where(error > 0, math.inf, 0.0))


def _same_anomalies(name: str, got: Tensor, expected: Tensor) -> None:
    for kind, test in (("NaN", torch.isnan), ("+inf", torch.isposinf), ("-inf", torch.isneginf)):
        wrong = test(got) != test(expected)
        if bool(wrong.any()):
            place = wrong.nonzero()[0].tolist()
            raise WrongResultError(
                f"{name}: {int(wrong.sum())} elements are {kind} on one side only, first at {place}: "
                f"got {float(got[tuple(place)])}, expected {float(expected[tuple(place)])}"
            )


def _check_lse(out_lse: Tensor, reference_lse: Tensor, most: float) -> None:
    finite = reference_lse.isfinite()
    error = (out_lse - reference_lse).abs()[finite]
    bound = most + most * reference_lse.abs()[finite]
    if bool((error > bound).any()):
        excess = float((error - bound).max())
        raise WrongResultError(f"out_lse: off by {excess:.2e} more than {most} absolute plus relative")
