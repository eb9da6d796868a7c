"""The kinds of values in a spec, as annotated types: what each accepts, its JSON schema, and what to say otherwise."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Tag
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from cake_tune.measure.backend_names import BACKENDS
from cake_tune.planner.shape import HEAD_COUNTS
from cake_tune.spec.constraint import MAX_LENGTH, parse_constraint
from cake_tune.spec.tokens import ConstraintError

MAX_TOKENS = 1 << 20
MAX_TOPK = 1 << 16
MAX_PAGE = 1 << 16
MAX_BUDGET_SECONDS = 30 * 86400.0

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
NAME_EXPECTED = "a name of lower-case letters, digits, dots, _ and -"
OPTION_NAME = r"^[a-z][a-z0-9_]{0,31}$"
_BACKEND = rf"^({'|'.join(BACKENDS)})(:[!-~]{{1,500}})?$"
_DURATION = r"^([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|m|h)$"
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_BUDGET = 'seconds above 0 and up to 30 days, as a number or with a unit ("90s", "10m", "1.5h")'

T = TypeVar("T")


class Section(BaseModel):
    """A mapping of the spec: unknown keys are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """Annotation of a type: the value must also pass ``accepts``; ``schema`` says so in JSON schema.

    ``words`` are those that may have been meant by one that does not pass.
    """

    accepts: Callable[[Any], bool]
    expected: str
    schema: dict[str, Any] = field(hash=False)
    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Run the rule after the type's own checks."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, inner: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The type's schema, with the rule's keywords added."""
        return {**handler(inner), **self.schema}

    def _check(self, value: Any) -> Any:
        if not self.accepts(value):
            raise expected(self.expected, self.words)
        return value


def expected(what: str, words: tuple[str, ...] = ()) -> PydanticCustomError:
    """The error for a value that is not ``what``; its message is made where the value is known."""
    return PydanticCustomError("expected", "{expected}", {"expected": what, "words": words})


def one_of(*values: int) -> Rule:
    """A rule: one of these integers."""
    what = ", ".join(map(str, values))
    return Rule(lambda value: value in values, what if len(values) == 1 else f"one of {what}", {"enum": list(values)})


def matching(pattern: str, what: str) -> Rule:
    """A rule: a string of this form."""
    return Rule(lambda text: re.fullmatch(pattern, text, re.ASCII) is not None, what, {"pattern": pattern})


def budget_seconds(budget: float | str) -> float:
    """Seconds of a time budget, given as a number or with its unit."""
    if isinstance(budget, str):
        match = re.fullmatch(_DURATION, budget, re.ASCII)
        return float(match[1]) * _UNIT_SECONDS[match[2]] if match else 0.0
    return budget


def _form(value: Any) -> str:
    """Which form a value has: a label (no key of a spec) of the type that is to check it."""
    return "<list>" if isinstance(value, list) else "<value>"


def form_or_range(value: Any) -> str:
    """The same for an axis that may also be given as a range."""
    return "<range>" if isinstance(value, dict) else _form(value)


def _form_or_all(value: Any) -> str:
    return "<all>" if isinstance(value, str) else _form(value)


def _is_option(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and bool(re.fullmatch(r"[\w.+-]{1,64}", value, re.ASCII)))


def _check_constraint(text: str) -> str:
    try:
        parse_constraint(text)
    except ConstraintError as error:
        raise PydanticCustomError("problem", "{message}", {"message": str(error), "offset": error.offset}) from None
    return text


class _ConstraintText:
    """Annotation of a string: it must read as a constraint."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(_check_constraint, handler(source))

    def __get_pydantic_json_schema__(self, inner: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(inner), "minLength": 1, "maxLength": MAX_LENGTH}


Axis = Annotated[
    Annotated[T, Tag("<value>")] | Annotated[list[T], Field(min_length=1), Tag("<list>")], Discriminator(_form)
]
"""One value, or a list of them."""

Everything = Annotated[str, Rule("all".__eq__, "all, an integer or a list of integers", {"enum": ["all"]}, ("all",))]
AxisOrAll = Annotated[
    Annotated[T, Tag("<value>")]
    | Annotated[list[T], Field(min_length=1), Tag("<list>")]
    | Annotated[Everything, Tag("<all>")],
    Discriminator(_form_or_all),
]
"""``all``, one value, or a list of them."""

BackendName = Annotated[
    str,
    Rule(
        lambda text: re.fullmatch(_BACKEND, text, re.ASCII) is not None,
        f"one of {', '.join(BACKENDS)} (its configuration, without blanks, after a colon)",
        {"pattern": _BACKEND, "examples": list(BACKENDS)},
        tuple(BACKENDS),
    ),
]
"""A backend, with its own configuration after a colon where it has one."""

Version = Annotated[int, one_of(1)]
Name = Annotated[str, matching(NAME, NAME_EXPECTED)]
Seed = Annotated[int, Field(ge=0, lt=1 << 32)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Sample = Annotated[int, Field(ge=1, le=1_000_000)]
FilePath = Annotated[
    str,
    Rule(
        lambda text: 0 < len(text) <= 1000 and text.isprintable(),
        "the path of a file",
        {"minLength": 1, "maxLength": 1000},
    ),
]
HeadCount = Annotated[int, one_of(*HEAD_COUNTS)]
Topk = Annotated[int, Field(ge=1, le=MAX_TOPK)]
ExtraTopk = Annotated[int, Field(ge=0, le=MAX_TOPK)]
PageSize = Annotated[int, Field(ge=1, le=MAX_PAGE)]
HeadTiles = Annotated[int, one_of(1, 2, 4)]
Splits = Annotated[int, Field(ge=1, le=MAX_TOPK)]
OptionName = Annotated[str, matching(OPTION_NAME, "an option name of lower-case letters, digits and _")]
OptionValue = Annotated[
    Any,
    Rule(
        _is_option,
        "an integer, true, false or a word",
        {"type": ["integer", "boolean", "string"], "pattern": r"^[A-Za-z0-9_.+-]{1,64}$"},
    ),
]
ConstraintText = Annotated[str, _ConstraintText()]
Budget = Annotated[
    Annotated[float, Field(gt=0, le=MAX_BUDGET_SECONDS), Tag("<value>")]
    | Annotated[
        str,
        Rule(lambda text: 0 < budget_seconds(text) <= MAX_BUDGET_SECONDS, _BUDGET, {"pattern": _DURATION}),
        Tag("<text>"),
    ],
    Discriminator(lambda value: "<text>" if isinstance(value, str) else "<value>"),
]
