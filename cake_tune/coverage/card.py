"""A model card: what a model asks of sparse MLA when it is served. Small YAML files; ``models/`` has the known ones."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from cake_tune.spec.fields import ExtraTopk, PageSize, Section, Tokens, Topk, Version, expected, form_or_range, matching

MOST_SIZES = 200
MOST_KINDS = 16
"""Most capture sizes and most kinds of layers: more would not fit a constraint of a spec."""

Words = Annotated[str, matching(r"[!-~]([ -~]{0,38}[!-~])?", "a text of up to 40 characters")]


class SizeRange(Section):
    """Capture sizes in equal steps, the last included where a step meets it."""

    first: Tokens = Field(alias="from")
    last: Tokens = Field(alias="to")
    step: Tokens

    @field_validator("last")
    @classmethod
    def _ascending(cls, last: int, info: ValidationInfo) -> int:
        first = info.data.get("first", last)
        if last < first:
            raise expected(f"an integer >= from ({first})")
        return last


class Attention(Section):
    """One kind of attention layer: candidates per token in the main and the extra cache, and tokens per page."""

    layers: Words
    topk: Topk
    extra_topk: ExtraTopk = 0
    page_size: PageSize = 64
    extra_page_size: PageSize = 64


CaptureSize = Annotated[
    Annotated[Tokens, Tag("<value>")] | Annotated[SizeRange, Tag("<range>")], Discriminator(form_or_range)
]


class ModelCard(Section):
    """``heads`` of the whole model, before they are shared out over tensor-parallel GPUs.

    ``lengths`` and ``sink``: whether calls pass per-token lengths and an attention sink. ``capture_sizes``: the
    num_tokens that the engine captures CUDA graphs at, which are those it runs at.
    """

    version: Version
    model: Words
    heads: int = Field(ge=1, le=1024)
    lengths: bool = False
    sink: bool = False
    attention: list[Attention] = Field(min_length=1)
    capture_sizes: list[CaptureSize] = Field(min_length=1)

    @field_validator("attention")
    @classmethod
    def _few_kinds(cls, attention: list[Attention]) -> list[Attention]:
        if len(attention) > MOST_KINDS:
            raise expected(f"at most {MOST_KINDS} kinds of layers")
        return attention

    @field_validator("capture_sizes")
    @classmethod
    def _few_sizes(cls, sizes: list[int | SizeRange]) -> list[int | SizeRange]:
        if len(_tokens(sizes)) > MOST_SIZES:
            raise expected(f"at most {MOST_SIZES} sizes")
        return sizes

    @property
    def num_tokens(self) -> list[int]:
        """The capture sizes, ascending, each once."""
        return _tokens(self.capture_sizes)


def _tokens(sizes: list[int | SizeRange]) -> list[int]:
    tokens = [range(each.first, each.last + 1, each.step) if isinstance(each, SizeRange) else [each] for each in sizes]
    return sorted({count for counts in tokens for count in counts})
