"""Read a model card, by the name of a shipped one or from a file, with every problem at its place."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cake_tune.coverage.card import Attention, ModelCard, SizeRange
from cake_tune.errors import CardError, UsageError
from cake_tune.spec.explain import explain
from cake_tune.spec.problems import Problem, Problems, did_you_mean, spec_error
from cake_tune.spec.reader import MAX_BYTES, decode, read_tree
from cake_tune.spec.tree import Node, known_path, place, plain

MODELS = Path(__file__).parent / "models"


def model_names() -> list[str]:
    """The names of the shipped cards."""
    return sorted(path.stem for path in MODELS.glob("*.yaml"))


def load_card(model: str) -> ModelCard:
    """The card called ``model``, or the one in that file, if it names a YAML file.

    Raises ``UsageError`` for a name that is none, and ``CardError`` with every problem as
    ``file:line:column: path: message``.
    """
    path = Path(model)
    if path.suffix not in (".yaml", ".yml"):
        if model not in model_names():
            known = did_you_mean(model, model_names())
            raise UsageError(f"--model: expected {', '.join(model_names())} or a YAML file, got {model!r}{known}")
        path = MODELS / f"{model}.yaml"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise CardError(f"{path}: cannot read the card: {getattr(error, 'strerror', None) or error}") from None
    return parse_card(data, str(path))


def parse_card(data: bytes, name: str) -> ModelCard:
    """The card in a YAML text; ``name`` stands for the file in messages. Raises ``CardError`` as ``load_card`` does."""
    tree: Node | None = None
    try:
        tree, problems = read_tree(decode(data), "card")
        return _validate(tree, problems)
    except Problems as error:
        found = error.problems
        if tree is not None:
            found = tuple(Problem(each.message, each.path, place(tree, each)) for each in found)
        raise CardError(str(spec_error(name, found))) from None


def _validate(tree: Node, problems: list[Problem]) -> ModelCard:
    try:
        card = ModelCard.model_validate(plain(tree))
    except ValidationError as error:
        told = {problem.path for problem in problems}
        found = [_explain(details, tree) for details in error.errors(include_url=False)]
        raise Problems([*problems, *(each for each in found if each.path not in told)]) from None
    if problems:
        raise Problems(problems)
    return card


def _explain(error: ErrorDetails, tree: Node) -> Problem:
    if error["type"] != "extra_forbidden":
        return explain(error, tree)
    path = known_path(tree, error["loc"])
    known = _keys(str(path[0]) if len(path) > 1 else "")
    hint = did_you_mean(str(path[-1]), known) or f"; known keys: {', '.join(known)}"
    return Problem(f"unknown key{hint}", path, at_key=True)


def _keys(section: str) -> list[str]:
    models: dict[str, type[ModelCard | Attention | SizeRange]] = {
        "": ModelCard,
        "attention": Attention,
        "capture_sizes": SizeRange,
    }
    fields: Iterable[tuple[str, object]] = models[section].model_fields.items()
    return [getattr(field, "alias", None) or name for name, field in fields]
