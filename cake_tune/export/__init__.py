"""Planner tables as code: one self-contained Python module with the rules, the exceptions and their evidence."""

from cake_tune.export.check import check_module
from cake_tune.export.python_planner import planner_source

__all__ = ["check_module", "planner_source"]
