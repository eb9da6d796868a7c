"""The arithmetic of a block: base-2 softmax over a tile of candidates, and the epilogue that joins the sink.

Logits are base 2 throughout: the products are scaled by ``sm_scale * log2(e)``.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from cake_tune.mla.call import AttentionCall
from cake_tune.mla.workspace import Workspace

LOG2_E = math.log2(math.e)


class Partial(NamedTuple):
    """Softmax state of a block over the candidates so far."""

    maximum: Tensor
    """[heads, 1] largest base-2 logit."""
    total: Tensor
    """[heads, 1] sum of 2^(logit - maximum)."""
    weighted: Tensor
    """[heads, 512] sum of 2^(logit - maximum) times the value."""

    def finish(self) -> tuple[Tensor, Tensor]:
        """Attention output [heads, 512] and base-2 log-sum-exp [heads]; the state is used up."""
        return self.weighted.div_(self.total), self.total.log2_().add_(self.maximum).squeeze(1)


def load_query(call: AttentionCall, token: int, heads: slice) -> Tensor:
    """The block's queries as float32 [heads, 512]."""
    return call.q[token, heads].float()


def attend(state: Partial | None, query: Tensor, scale: float, rows: int, workspace: Workspace) -> Partial:
    """A step of the online softmax: ``state`` (None at the first step; used up) joined with the tile's first rows.

    ``scale`` makes base-2 logits of the products of ``query`` and the tile.
    """
    tile, transposed = workspace.tile(rows)
    logits = workspace.logits(query.shape[0], rows).addmm_(query, transposed, beta=0, alpha=scale)
    maximum = logits.amax(1, keepdim=True)
    if state is None:
        weights = logits.sub_(maximum).exp2_()
        return Partial(maximum, weights.sum(1, keepdim=True), torch.mm(weights, tile))
    maximum = torch.maximum(maximum, state.maximum)
    weights = logits.sub_(maximum).exp2_()
    decay = state.maximum.sub_(maximum).exp2_()
    total = state.total.mul_(decay).add_(weights.sum(1, keepdim=True))
    return Partial(maximum, total, state.weighted.mul_(decay).addmm_(weights, tile))


def store(call: AttentionCall, token: int, heads: slice, attention: Tensor | None, lse: Tensor | None) -> None:
    """Epilogue of some heads of one token: join the sink, write ``output`` and ``out_lse``.

    ``attention`` [heads, 512] and base-2 ``lse`` [heads] are those of the valid slots; None stands for no valid slot,
    which writes zeros. An infinite LSE (no valid slot and no sink) is written unscaled, whatever ``lse_scale`` is.
    """
    output, out_lse = call.output[token, heads], call.out_lse[token, heads]
    if lse is None:
        lse = torch.full(out_lse.shape, -math.inf)
    if call.attn_sink is not None:
        sink = call.attn_sink[heads] * LOG2_E
        if attention is not None:
            # 2^lse / (2^lse + 2^sink), written so that nothing overflows; NaN is -inf - -inf: neither slot nor sink.
            share = 1 / (1 + torch.exp2(sink - lse))
            attention = attention * torch.where(lse == -math.inf, 0, share).unsqueeze(1)
        lse = torch.logaddexp2(lse, sink)
    if call.lse_scale != 1:
        lse = torch.where(lse.isinf(), lse, lse * call.lse_scale)
    if attention is None:
        output.zero_()
    else:
        output.copy_(attention)
    out_lse.copy_(lse)
