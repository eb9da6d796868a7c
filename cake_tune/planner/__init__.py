"""Pure integers: the rule family, planner tables, and the ``plan_*`` functions that answer from them."""

from typing import TYPE_CHECKING

from cake_tune._lazy import lazy_names

if TYPE_CHECKING:
    from cake_tune.planner.cost import CostModel, KernelCost
    from cake_tune.planner.lookup import Decision, decide
    from cake_tune.planner.outside import Outside, Score
    from cake_tune.planner.plans import (
        cake_sparse_mla_sm120_dsv4_nvfp4_format_info,
        cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks,
        cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles,
        cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill,
        cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits,
        cake_sparse_mla_sm120_dsv4_nvfp4_scratch_bytes,
        cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel,
        cake_sparse_mla_sm120_dsv4_nvfp4_supported_heads,
    )
    from cake_tune.planner.registry import (
        install_table,
        installed_tables,
        shipped_tables,
        table_for,
        use_backend,
        use_device,
        use_table,
        user_tables_dir,
    )
    from cake_tune.planner.regret import Regret
    from cake_tune.planner.rules import Rules
    from cake_tune.planner.shape import Device, Plan, Shape, every_plan
    from cake_tune.planner.table import (
        Certificate,
        KernelIdentity,
        Override,
        PlannerTable,
        Provenance,
        Region,
        load_table,
        save_table,
        table_from_json,
        table_to_json,
    )

__all__ = [
    "Certificate",
    "CostModel",
    "Decision",
    "Device",
    "KernelCost",
    "KernelIdentity",
    "Outside",
    "Override",
    "Plan",
    "PlannerTable",
    "Provenance",
    "Region",
    "Regret",
    "Rules",
    "Score",
    "Shape",
    "cake_sparse_mla_sm120_dsv4_nvfp4_format_info",
    "cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks",
    "cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles",
    "cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill",
    "cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits",
    "cake_sparse_mla_sm120_dsv4_nvfp4_scratch_bytes",
    "cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel",
    "cake_sparse_mla_sm120_dsv4_nvfp4_supported_heads",
    "decide",
    "every_plan",
    "install_table",
    "installed_tables",
    "load_table",
    "save_table",
    "shipped_tables",
    "table_for",
    "table_from_json",
    "table_to_json",
    "use_backend",
    "use_device",
    "use_table",
    "user_tables_dir",
]

_HOMES = ("shape", "cost", "regret", "rules", "outside", "table", "lookup", "registry", "plans")

__getattr__, __dir__ = lazy_names(
    __name__,
    __all__,
    [
        f"{__name__}.{home}"
        for home in ("shape", "cost", "regret", "rules", "outside", "table", "lookup", "registry", "plans")
    ],
)
