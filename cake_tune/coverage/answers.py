"""What the kernels and a table have for each shape of a model: whether it runs, its plan, and how far that is known."""

from collections import Counter
from dataclasses import dataclass

from cake_tune.coverage.card import Attention, ModelCard
from cake_tune.errors import UsageError
from cake_tune.planner.lookup import Decision, decide
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import HEAD_COUNTS, MAX_CHUNKS_PER_BLOCK, PREFILL_TILES, Shape
from cake_tune.planner.table import PlannerTable

MOST_CHUNKS = MAX_CHUNKS_PER_BLOCK * DEFAULT_MAX_SPLITS
"""Chunks that decode holds with the most splits a plan takes."""


@dataclass(frozen=True, slots=True)
class Layers:
    """One kind of attention layer: why a kernel cannot run it (empty: it can), and the answers by num_tokens.

    ``answers`` is empty where not even decode runs it.
    """

    attention: Attention
    chunks: int
    no_decode: str
    no_prefill: str
    answers: tuple[tuple[Shape, Decision], ...]

    @property
    def sources(self) -> Counter[str]:
        """How many answers are measured, by rule, extrapolated."""
        return Counter(decision.source for _, decision in self.answers)


@dataclass(frozen=True, slots=True)
class Coverage:
    """A model on ``tp`` GPUs: ``heads`` on each, ``num_heads`` of the kernel that runs them (0: none does)."""

    card: ModelCard
    tp: int
    heads: int
    num_heads: int
    table: PlannerTable
    layers: tuple[Layers, ...]

    @property
    def sources(self) -> Counter[str]:
        """The sources of all answers."""
        return sum((each.sources for each in self.layers), Counter())

    def gaps(self) -> list[Shape]:
        """The shapes that run, and whose plan no sweep has timed at just this shape."""
        answers = (answer for each in self.layers for answer in each.answers)
        return [shape for shape, decision in answers if decision.source != "measured"]


def cover(card: ModelCard, tp: int, table: PlannerTable, num_sms: int | None = None) -> Coverage:
    """What ``table`` answers for ``card`` with its heads on ``tp`` GPUs; ``UsageError`` for a ``tp`` that cuts a head.

    A head count between two of the kernel's is answered for the next one, to which an engine pads.
    """
    heads, rest = divmod(card.heads, tp)
    if rest or not heads:
        raise UsageError(f"--tp: expected a divisor of the {card.heads} heads, got {tp}")
    num_heads = next((count for count in HEAD_COUNTS if count >= heads), 0)
    layers = tuple(_layers(card, attention, num_heads, table, num_sms) for attention in card.attention)
    return Coverage(card, tp, heads, num_heads, table, layers)


def _layers(card: ModelCard, attention: Attention, num_heads: int, table: PlannerTable, num_sms: int | None) -> Layers:
    def shape(num_tokens: int) -> Shape:
        pages = (attention.page_size, attention.extra_page_size)
        return Shape(num_tokens, num_heads, attention.topk, attention.extra_topk, *pages, card.lengths, card.sink)

    def answer(num_tokens: int) -> Decision:
        topk, extra_topk = attention.topk, attention.extra_topk
        return decide(
            table, num_tokens=num_tokens, num_heads=num_heads, topk=topk, extra_topk=extra_topk, num_sms=num_sms
        )

    chunks = shape(1).chunks
    no_decode = _no_decode(num_heads, chunks)
    answers = () if no_decode else tuple((shape(count), answer(count)) for count in card.num_tokens)
    return Layers(attention, chunks, no_decode, _no_prefill(num_heads, chunks), answers)


def _no_decode(num_heads: int, chunks: int) -> str:
    if not num_heads:
        return f"at most {HEAD_COUNTS[-1]} heads"
    return f"at most {MOST_CHUNKS} chunks" if chunks > MOST_CHUNKS else ""


def _no_prefill(num_heads: int, chunks: int) -> str:
    if num_heads not in PREFILL_TILES:
        return f"from {min(PREFILL_TILES)} heads on"
    return f"at most {MAX_CHUNKS_PER_BLOCK} chunks" if chunks > MAX_CHUNKS_PER_BLOCK else ""
