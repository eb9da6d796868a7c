"""The judgement that every backend with tensors shares: all tokens, against a reference computed once."""

from torch import Tensor

from cake_tune.errors import WrongResultError
from cake_tune.mla import CONTRACT, Bounds, check_accuracy

JUDGED_ELEMENTS = 1 << 24
"""Output elements that are compared at once, in float64."""


def judge(
    output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor, bounds: Bounds = CONTRACT
) -> float:
    """The largest relative error over slices of the tokens; ``WrongResultError`` where one misses ``bounds``.

    ``output`` and ``reference`` are ``[T, H, 512]``, the LSEs ``[T, H]``. Poison that was not overwritten is wrong too.
    """
    num_tokens, num_heads, dims = output.shape
    step = max(1, JUDGED_ELEMENTS // (num_heads * dims))
    worst = 0.0
    for first in range(0, num_tokens, step):
        part = slice(first, first + step)
        try:
            error = check_accuracy(output[part], out_lse[part], reference[part], reference_lse[part], bounds)
        except WrongResultError as wrong:
            raise WrongResultError(f"counting tokens from {first}: {wrong}" if first else str(wrong)) from None
        worst = max(worst, error)
    return worst
