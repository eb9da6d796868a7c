"""From measured points to decisions: crossovers, rule constants, exceptions, and the planner table that holds them."""

from cake_tune.fit.run import check_table, table_of_run
from cake_tune.fit.table import build_table

__all__ = ["build_table", "check_table", "table_of_run"]
