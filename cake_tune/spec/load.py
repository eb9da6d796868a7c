"""Read a spec: text → tree → validated document → points, with every problem of a stage in one error."""

import os
import re
from pathlib import Path

from pydantic import ValidationError

from cake_tune.errors import SpecError
from cake_tune.spec.expand import Domain, expand
from cake_tune.spec.explain import explain
from cake_tune.spec.fields import NAME, NAME_EXPECTED, budget_seconds
from cake_tune.spec.models import Document
from cake_tune.spec.problems import Problem, Problems, quoted, spec_error
from cake_tune.spec.reader import MAX_BYTES, decode, read_tree
from cake_tune.spec.sweep_spec import Spec
from cake_tune.spec.tree import Node, place, plain
from cake_tune.spec.workload import read_weights


def load_spec(path: str | os.PathLike[str]) -> Spec:
    """The spec in a YAML file; raises ``SpecError`` with every problem as ``file:line:column: path: message``."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(f"{os.fspath(path)}: cannot read the spec: {reason}") from None
    return parse_spec(data, os.fspath(path))


def parse_spec(text: str | bytes, name: str, *, workload: bool = True) -> Spec:
    """The spec in a YAML text; ``name`` stands for the file in messages, and its stem is the default sweep name.

    A workload that the text names is read from the folder of ``name``; without ``workload`` it is left alone, so that
    nothing but the text counts.

    Raises ``SpecError`` with every problem as ``name:line:column: path: message``. Problems of the YAML and of single
    values come together; whether every value yields a point is only asked once all of them are valid.
    """
    tree: Node | None = None
    try:
        content = decode(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        tree, problems = read_tree(content)
        document = _validate(tree, problems)
        sweep = document.name or _sweep_name(name)
        domain = Domain(document)
        points = expand(document, domain)
        weights = () if document.weights is None or not workload else read_weights(Path(name).parent, document.weights)
    except Problems as error:
        found = error.problems
        if tree is not None:
            found = tuple(Problem(p.message, p.path, place(tree, p)) for p in found)
        raise spec_error(name, found) from None
    return Spec(
        name=sweep,
        backend=document.backend,
        protocol=document.protocol(),
        seed=document.seed,
        time_budget_seconds=None if document.time_budget is None else budget_seconds(document.time_budget),
        description=document.description,
        text=content,
        path=name,
        expanded=points,
        search=document.chosen_search(),
        weights=weights,
        domain=domain,
    )


def _validate(tree: Node, problems: list[Problem]) -> Document:
    """The document's model; raises ``Problems`` with the reader's problems and the model's, each place once."""
    try:
        document = Document.model_validate(plain(tree))
    except ValidationError as error:
        told = {problem.path for problem in problems}
        found = [explain(details, tree) for details in error.errors(include_url=False)]
        raise Problems([*problems, *(problem for problem in found if problem.path not in told)]) from None
    if problems:
        raise Problems(problems)
    return document


def _sweep_name(file: str) -> str:
    """The file's name without its suffix, if it can name a sweep and its folder of results."""
    stem = Path(file).stem
    if not re.fullmatch(NAME, stem, re.ASCII):
        message = f"the file name {quoted(stem)} cannot name the sweep: give name, {NAME_EXPECTED}"
        raise Problems([Problem(message, ("name",))])
    return stem
