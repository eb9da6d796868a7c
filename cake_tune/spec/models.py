"""The pydantic models of a spec, section by section: keys, defaults and descriptions."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import RIVAL, Kernel
from cake_tune.spec.fields import (
    OPTION_NAME,
    Axis,
    AxisOrAll,
    BackendName,
    Budget,
    ConstraintText,
    ExtraTopk,
    FilePath,
    HeadCount,
    HeadTiles,
    Name,
    OptionName,
    OptionValue,
    PageSize,
    Sample,
    Section,
    Seed,
    Splits,
    Tokens,
    Topk,
    Version,
    expected,
    form_or_range,
)
from cake_tune.spec.measure_model import Measure
from cake_tune.spec.sweep_spec import Method, Search

_SEARCH = Search()


class TokenRange(Section):
    """Token counts from one to another, both included: every integer, or some of them per doubling."""

    first: Tokens = Field(alias="from", description="Smallest value.")
    last: Tokens = Field(alias="to", description="Largest value; always included.")
    per_octave: int | None = Field(
        None, ge=1, le=64, description="Values per doubling, rounded to integers; left out: every integer."
    )

    @field_validator("last")
    @classmethod
    def _ascending(cls, last: int, info: ValidationInfo) -> int:
        first = info.data.get("first", last)
        if last < first:
            raise expected(f"an integer >= from ({first})")
        return last

    def values(self) -> list[int]:
        """The integers of the range, ascending."""
        if self.per_octave is None:
            return list(range(self.first, self.last + 1))
        values, step = {self.last}, 0
        while (value := round(self.first * 2 ** (step / self.per_octave))) < self.last:
            values.add(value)
            step += 1
        return sorted(values)


TokenAxis = Annotated[
    Annotated[Tokens, Tag("<value>")]
    | Annotated[list[Tokens], Field(min_length=1), Tag("<list>")]
    | Annotated[TokenRange, Tag("<range>")],
    Discriminator(form_or_range),
]


class Shapes(Section):
    """The shapes to measure: every combination of these values."""

    num_tokens: TokenAxis = Field(description="Query tokens T: a value, a list, or {from, to, per_octave}.")
    num_heads: Axis[HeadCount] = Field(description="Query heads H.")
    topk: Axis[Topk] = Field(description="Candidates per token in the main cache.")
    extra_topk: Axis[ExtraTopk] = Field(0, description="Candidates per token in the extra cache; 0: no extra cache.")
    page_size: Axis[PageSize] = Field(64, description="Tokens per page of the main cache.")
    extra_page_size: Axis[PageSize] = Field(64, description="Tokens per page of the extra cache.")
    lengths: Axis[bool] = Field(False, description="Whether per-token valid lengths are passed.")
    sink: Axis[bool] = Field(False, description="Whether an attention sink is passed.")


class Plans(Section):
    """The plans to compare on every shape: every combination that can run it."""

    kernels: Axis[Kernel] = Field(["decode", "prefill"], description="Kernels to compare.")
    head_tiles: AxisOrAll[HeadTiles] = Field(
        "all", description="Head tiles of 16 heads per block; all: every instance."
    )
    splits: AxisOrAll[Splits] = Field(
        "all", description="num_splits to ask decode for, each resolved to a plan; all: every distinct plan."
    )
    options: dict[OptionName, Axis[OptionValue]] = Field(
        {},
        description="Build options of the kernels: a value or a list of values for each.",
        json_schema_extra={"propertyNames": {"pattern": OPTION_NAME, "not": {"const": RIVAL}}},
    )
    rivals: Axis[OptionName] = Field(
        [],
        description="Other kernels of the backend to race against, which decide by themselves how they run "
        "(flashinfer: sparse). They are reported, and never enter a table.",
    )

    @field_validator("options")
    @classmethod
    def _no_rival(cls, options: dict[str, object]) -> dict[str, object]:
        if RIVAL in options:
            raise expected(f"build options; a {RIVAL} stands under plans.rivals")
        return options


class SearchOptions(Section):
    """How the points to measure are chosen."""

    method: Method = Field(
        _SEARCH.method,
        description="exhaustive: every point of the spec; adaptive: only those that the table needs, by a cost model.",
    )
    refine: bool = Field(
        _SEARCH.refine,
        description="Whether new num_tokens are measured inside the interval of each crossover, until its ends are "
        "adjacent or closer than 12.5 %.",
    )
    regret: float = Field(
        _SEARCH.regret, gt=0, lt=1, description="Mean regret that an adaptive search may leave, as a fraction."
    )

    @model_validator(mode="after")
    def _used(self) -> "SearchOptions":
        if self.method != "adaptive" and "regret" in self.model_fields_set:
            message = "only an adaptive search has it: expected method: adaptive beside it"
            raise PydanticCustomError("problem", "{message}", {"message": message, "key": "regret"})
        return self

    def search(self) -> Search:
        """The same as the rest of the tool sees it."""
        return Search(**self.model_dump())


SearchAxis = Annotated[
    Annotated[Method, Tag("<value>")] | Annotated[SearchOptions, Tag("<mapping>")],
    Discriminator(lambda value: "<mapping>" if isinstance(value, dict) else "<value>"),
]
"""A method, or a mapping with what else belongs to the search."""


class Document(Section):
    """A sweep spec of cake-tune."""

    version: Version = Field(description="Version of the spec format.")
    name: Name | None = Field(None, description="Name of the sweep, and of its results; the file's name if left out.")
    description: str = Field("", max_length=2000, description="What the sweep is for.")
    backend: BackendName = Field(description="What runs the plans; what follows a colon is the backend's own affair.")
    seed: Seed = Field(0, description="Seed of the inputs and of the order of visits.")
    time_budget: Budget | None = Field(
        None, description="Longest duration of the sweep: seconds, or with a unit (90s, 10m, 1.5h)."
    )
    shapes: Shapes = Field(description="The shapes to measure: every combination of these values.")
    plans: Plans = Field(Plans(), description="The plans to compare on every shape.")
    constraint: Axis[ConstraintText] | None = Field(
        None,
        description="What must hold of a shape, or of a plan on it, to be measured; a list: all of them. "
        "Example: num_tokens * num_heads <= 4096 and (extra_topk == 0 or topk in [128, 512]).",
    )
    sample: Sample | None = Field(
        None, description="How many of the points to measure, drawn by the seed; left out: all of them."
    )
    search: SearchAxis = Field(
        _SEARCH.method, description="How the points to measure are chosen: exhaustive, adaptive, or a mapping."
    )
    weights: FilePath | None = Field(
        None,
        description="A workload: the path, from the spec's folder, of a CSV file with the columns num_tokens and "
        "weight. Crossovers and rules are then fitted to it; left out: every octave of num_tokens counts the same.",
    )
    measure: Measure = Field(Measure(), description="Numbers of the measuring protocol that differ from its defaults.")

    def chosen_search(self) -> Search:
        """How the points are chosen."""
        return self.search.search() if isinstance(self.search, SearchOptions) else Search(self.search)

    def protocol(self) -> Protocol:
        """The measuring protocol with this spec's numbers."""
        return Protocol(**self.measure.model_dump())
