"""The op on a GPU with the build options that a plan names."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cake_tune.backends.launcher import Arguments, OpLauncher, QueryMode
from cake_tune.cuda.options import build_options, chosen_options
from cake_tune.errors import ContractError
from cake_tune.planner.shape import Plan

OPTIONS = frozenset({"qk", "variant"})
"""Names of the build options that a plan may have."""


class CudaLauncher(OpLauncher):
    """The compiled kernels, built as the plan says."""

    def launch(self, plan: Plan, arguments: Arguments, optional: dict[str, Any], scratch: tuple[Any, ...]) -> None:
        """The op, under the plan's build options."""
        with _options_of(plan):
            super().launch(plan, arguments, optional, scratch)

    def query_mode(self, plan: Plan) -> QueryMode:
        """As the plan's build has it."""
        with _options_of(plan):
            return "nvfp4" if chosen_options().qk == "nvfp4" else "bf16"


@contextmanager
def _options_of(plan: Plan) -> Iterator[None]:
    """The build options that ``plan`` names, of those that there are."""
    options = dict(plan.options)
    unknown = options.keys() - OPTIONS
    if unknown:
        raise ContractError(f"options: expected {' or '.join(sorted(OPTIONS))}, got {', '.join(sorted(unknown))}")
    with build_options(**options):
        yield
