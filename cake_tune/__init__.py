"""Calibrates the Cake SM120 NVFP4 sparse-MLA kernels: sweeps, crossovers, planner tables.

Everything named here loads on first use; importing the package and asking a planner load neither torch nor pandas.
"""

from typing import TYPE_CHECKING

from cake_tune._lazy import lazy_names

if TYPE_CHECKING:
    from cake_tune._version import __version__
    from cake_tune.config import SparseMLASm120DecodeConfig, supported_sparse_mla_sm120_configs
    from cake_tune.errors import CakeTuneError
    from cake_tune.mla import (
        cake_sparse_mla_sm120_dsv4_nvfp4_decode,
        cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
        decode,
        dequantize_sparse_mla_cache,
        device_of,
        nvfp4_quantize_append_sparse_mla_cache,
        nvfp4_quantize_pack_sparse_mla_cache,
        prefill,
    )
    from cake_tune.planner import (
        Decision,
        Device,
        Plan,
        PlannerTable,
        Shape,
        cake_sparse_mla_sm120_dsv4_nvfp4_format_info,
        cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks,
        cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles,
        cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill,
        cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits,
        cake_sparse_mla_sm120_dsv4_nvfp4_scratch_bytes,
        cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel,
        cake_sparse_mla_sm120_dsv4_nvfp4_supported_heads,
        decide,
        load_table,
        save_table,
        table_for,
        use_backend,
        use_device,
        use_table,
    )

__all__ = [
    "CakeTuneError",
    "Decision",
    "Device",
    "Plan",
    "PlannerTable",
    "Shape",
    "SparseMLASm120DecodeConfig",
    "__version__",
    "cake_sparse_mla_sm120_dsv4_nvfp4_decode",
    "cake_sparse_mla_sm120_dsv4_nvfp4_format_info",
    "cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks",
    "cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles",
    "cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill",
    "cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits",
    "cake_sparse_mla_sm120_dsv4_nvfp4_prefill",
    "cake_sparse_mla_sm120_dsv4_nvfp4_scratch_bytes",
    "cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel",
    "cake_sparse_mla_sm120_dsv4_nvfp4_supported_heads",
    "decide",
    "decode",
    "dequantize_sparse_mla_cache",
    "device_of",
    "load_table",
    "nvfp4_quantize_append_sparse_mla_cache",
    "nvfp4_quantize_pack_sparse_mla_cache",
    "prefill",
    "save_table",
    "supported_sparse_mla_sm120_configs",
    "table_for",
    "use_backend",
    "use_device",
    "use_table",
]

__getattr__, __dir__ = lazy_names(
    __name__, __all__, [f"{__name__}.{home}" for home in ("errors", "planner", "_version", "config", "mla")]
)
