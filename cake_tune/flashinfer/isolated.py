"""FlashInfer's planners without FlashInfer: their definitions, and what these need, taken from its source and run.

Its modules import torch and compile kernels on the way to a function of integers. Here a function is run with only the
definitions of its own module that it reaches; what the module would import has to be handed in.
"""

import ast
import builtins
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

from cake_tune.errors import DeviceUnfitError
from cake_tune.flashinfer.package import Package

PREFIX = "cake_sparse_mla_sm120_dsv4_nvfp4_"
HARMLESS = ("functools", "math")
"""Modules that a planner may import for itself."""


def load_planners(package: Package, names: list[str]) -> dict[str, Callable[..., Any]]:
    """Functions of ``package`` by their full names, which they share one module, ready to be called with integers.

    ``DeviceUnfitError`` for one that is not there, or that reaches for what a function of integers does not need.
    """
    path, _ = package.sources.find(names[0])
    given = {
        "flashinfer_api": _as_it_is,
        f"{PREFIX}manifest": lambda: package.manifest,
    }
    return load_functions(package.sources.tree(path), path, names, given)


def load_functions(
    tree: ast.Module, path: Path, names: list[str], given: Mapping[str, object]
) -> dict[str, Callable[..., Any]]:
    """``names`` of the module ``tree``, run with what they reach in it and with ``given``; annotations are dropped."""
    defined = _definitions(tree)
    wanted, waiting = dict[str, ast.stmt](), list(names)
    while waiting:
        name = waiting.pop()
        if name in wanted or name in given:
            continue
        if name not in defined:
            if hasattr(builtins, name):
                continue
            raise DeviceUnfitError(f"{path}: expected a definition of {name}, found none")
        node = defined[name]
        if isinstance(node, ast.Import | ast.ImportFrom):
            _check_import(node, name, path)
        wanted[name] = bare = _Bare().visit(deepcopy(node))
        waiting += sorted(_names_read(bare))
    body = sorted(wanted.values(), key=lambda node: node.lineno)
    namespace: dict[str, Any] = {"__name__": "isolated", **given}
    exec(compile(ast.Module(body, type_ignores=[]), str(path), "exec"), namespace)
    return {name: namespace[name] for name in names}


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """In the place of a decorator that only logs."""
    return function


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """The top-level statements of a module by each name that they bind."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name.partition(".")[0]): node for alias in node.names}
    return found


def _check_import(node: ast.Import | ast.ImportFrom, name: str, path: Path) -> None:
    modules = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    relative = isinstance(node, ast.ImportFrom) and node.level > 0
    if relative or any(module not in HARMLESS for module in modules):
        raise DeviceUnfitError(f"{path}: {name} is imported by {ast.unparse(node)!r}, which a planner did not need")
    for module in filter(None, modules):
        import_module(module)


def _names_read(node: ast.AST) -> set[str]:
    """Names that ``node`` reads and does not bind itself."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store | ast.Del)}
    bound |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    bound |= {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
    return {each.id for each in names if isinstance(each.ctx, ast.Load)} - bound


class _Bare(ast.NodeTransformer):
    """Drops annotations: they are read by people and checkers, and name what is not there."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)
