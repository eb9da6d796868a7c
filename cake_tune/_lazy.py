"""Public names that load their module on first use (PEP 562), so that importing a package costs next to nothing."""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module


def lazy_names(
    package: str, names: Iterable[str], homes: Iterable[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``; each of ``names`` comes from the first of ``homes`` to have it.

    ``homes`` are modules, the cheapest to import first.
    """
    public, modules = frozenset(names), tuple(homes)

    def __getattr__(name: str) -> object:  # noqa: N807
        if name in public:
            for module in map(import_module, modules):
                if hasattr(module, name):
                    value: object = getattr(module, name)
                    # Kept, so that the second use is an ordinary attribute.
                    setattr(sys.modules[package], name, value)
                    return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*vars(sys.modules[package]), *public})

    return __getattr__, __dir__
