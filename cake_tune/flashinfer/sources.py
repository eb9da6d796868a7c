"""Facts from Python sources by parsing them: where a name is defined, its signature, its constants. Nothing runs."""

import ast
import inspect
from functools import cached_property
from pathlib import Path
from typing import Any

from cake_tune.errors import DeviceUnfitError

CAPABILITIES = "supported_compute_capability"
"""FlashInfer's decorator that lists compute capabilities, as major * 10 + minor."""

Definition = ast.FunctionDef | ast.ClassDef
_KINDS = {
    "posonlyargs": inspect.Parameter.POSITIONAL_ONLY,
    "args": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "kwonlyargs": inspect.Parameter.KEYWORD_ONLY,
}


class Default:
    """A default that is no literal, known by its text alone."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Default) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class Sources:
    """The modules of one folder and of those in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str) -> tuple[Path, Definition]:
        """The file and the definition of a top-level function or class; an alias of one counts.

        Raises ``DeviceUnfitError`` where no module of the folder defines it.
        """
        for path in self._paths:
            text = self._text(path)
            if name not in text:
                continue
            defined, aliases = _top_level(self.tree(path))
            found = defined.get(aliases.get(name, name))
            if found is not None:
                return path, found
        raise DeviceUnfitError(f"{name}: expected its definition in {self.folder}, found none")

    def signature(self, name: str, method: str | None = None) -> inspect.Signature:
        """The signature of a function, of a class's ``method``, or of the ``__init__`` that a dataclass's fields make.

        Parameters and literal defaults are those of the source; annotations are left out, and so is ``self``.
        """
        _, found = self.find(name)
        if isinstance(found, ast.FunctionDef):
            return _signature(found.args)
        if method is None:
            return inspect.Signature([_field(item) for item in found.body if isinstance(item, ast.AnnAssign)])
        methods = {item.name: item for item in found.body if isinstance(item, ast.FunctionDef)}
        if method not in methods:
            raise DeviceUnfitError(f"{name}.{method}: expected its definition in {self.folder}, found none")
        whole = _signature(methods[method].args)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def capabilities(self, name: str) -> tuple[int, ...]:
        """The compute capabilities that a function's decorator lists; empty where it has none."""
        _, found = self.find(name)
        for decorator in found.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == CAPABILITIES:
                return tuple(ast.literal_eval(decorator.args[0]))
        return ()

    def constant(self, name: str) -> Any:
        """The value of a module constant that is a literal."""
        for path in self._paths:
            if name in self._text(path):
                for node in self.tree(path).body:
                    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                    if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                        return ast.literal_eval(node.value)  # type: ignore[attr-defined]
        raise DeviceUnfitError(f"{name}: expected a constant in {self.folder}, found none")

    def exported(self, prefix: str) -> set[str]:
        """Names with ``prefix`` that the folder's ``__init__.py`` offers, lazily or not."""
        nodes = ast.walk(self.tree(self.folder / "__init__.py"))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        return {text for text in texts if text.startswith(prefix) and text.isidentifier()}

    def tree(self, path: Path) -> ast.Module:
        """The parsed module; ``DeviceUnfitError`` where there is none."""
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self._text(path), str(path))
            except SyntaxError as error:
                raise DeviceUnfitError(f"{path}: expected Python source, got {error}") from error
        return self._trees[path]

    def _text(self, path: Path) -> str:
        if path not in self._texts:
            try:
                self._texts[path] = path.read_text(encoding="utf-8")
            except OSError as error:
                raise DeviceUnfitError(f"{path}: cannot be read: {error.strerror or error}") from error
        return self._texts[path]

    @cached_property
    def _paths(self) -> list[Path]:
        return sorted(self.folder.rglob("*.py"))

    @cached_property
    def _trees(self) -> dict[Path, ast.Module]:
        return {}

    @cached_property
    def _texts(self) -> dict[Path, str]:
        return {}


def _top_level(tree: ast.Module) -> tuple[dict[str, Definition], dict[str, str]]:
    """The definitions of a module by name, and what its plain aliases stand for."""
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    aliases = {
        target.id: node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return defined, aliases


def _signature(arguments: ast.arguments) -> inspect.Signature:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[str, ast.expr | None] = {}
    if arguments.defaults:
        last = positional[-len(arguments.defaults) :]
        defaults |= {one.arg: default for one, default in zip(last, arguments.defaults, strict=True)}
    defaults |= {one.arg: default for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    parameters = [
        inspect.Parameter(one.arg, kind, default=_default(defaults.get(one.arg)))
        for group, kind in _KINDS.items()
        for one in getattr(arguments, group)
    ]
    if arguments.vararg is not None:
        place = len(positional)
        parameters.insert(place, inspect.Parameter(arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    if arguments.kwarg is not None:
        parameters.append(inspect.Parameter(arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _field(item: ast.AnnAssign) -> inspect.Parameter:
    return inspect.Parameter(ast.unparse(item.target), _KINDS["args"], default=_default(item.value))


def _default(node: ast.expr | None) -> object:
    if node is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(node)
    except ValueError:
        return frozenset() if ast.unparse(node) == "frozenset()" else Default(ast.unparse(node))
