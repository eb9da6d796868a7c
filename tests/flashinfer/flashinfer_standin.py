"""A FlashInfer without its kernels: its signatures, taken from the wheel's source, over this project's CPU grid."""

from importlib.machinery import ModuleSpec
from types import ModuleType

from cake_tune import mla
from cake_tune.backends.launcher import query_as_used
from cake_tune.flashinfer.interface import DECODE, PACK, PREFILL, WRAPPER
from cake_tune.planner.shape import num_chunks

STATIC_FORMAT = "_STATIC_FORMAT"


class StandIn:
    """Modules ``flashinfer`` and ``flashinfer.mla``; ``calls`` are the names and bound arguments of what was called."""

    def __init__(self, package):
        self.package = package
        self.calls = []
        self.resolved = {}
        """What to say of the plan instead of the truth."""
        self.mla = ModuleType("flashinfer.mla")
        setattr(self.mla, DECODE, self.function(DECODE, self.decode))
        setattr(self.mla, PREFILL, self.function(PREFILL, self.prefill))
        setattr(self.mla, PACK, self.function(PACK, self.pack))
        setattr(self.mla, WRAPPER, self.wrapper())
        parent = ModuleType("flashinfer")
        parent.mla = self.mla
        parent.__path__ = [str(package.folder)]
        parent.__spec__ = ModuleSpec("flashinfer", None, origin=str(package.folder / "__init__.py"), is_package=True)
        parent.__spec__.submodule_search_locations = [str(package.folder)]
        self.modules = {"flashinfer": parent, "flashinfer.mla": self.mla}

    def bound(self, name, arguments, keywords, method=None):
        """The arguments as the declared signature binds them, defaults included; noted as a call."""
        call = self.package.sources.signature(name, method).bind(*arguments, **keywords)
        call.apply_defaults()
        self.calls.append((f"{name}.{method}" if method else name, call.arguments))
        return dict(call.arguments)

    def function(self, name, compute):
        def stub(*arguments, **keywords):
            return compute(**self.bound(name, arguments, keywords))

        return stub

    def wrapper(self):
        standin = self

        class Wrapper:
            def __init__(self, *arguments, **keywords):
                self.made = standin.bound(WRAPPER, arguments, keywords, "__init__")

            def run(self, *arguments, **keywords):
                standin.sparse(**standin.bound(WRAPPER, arguments, keywords, "run"))

        return Wrapper

    def decode(self, q, num_splits, max_splits, **rest):
        q = query_as_used(q, "nvfp4")
        return mla.cake_sparse_mla_sm120_dsv4_nvfp4_decode(
            q, num_splits=num_splits, max_splits=max(max_splits, num_splits or 0), **rest
        ) | dict(self.resolved)

    def prefill(self, q, **rest):
        resolved = mla.cake_sparse_mla_sm120_dsv4_nvfp4_prefill(query_as_used(q, "nvfp4"), **rest)
        return resolved | {"num_stages": 2, "q_evict_first": False, "grid_head_blocks_first": True} | self.resolved

    def pack(self, latent_kv, kv_layout):
        return mla.nvfp4_quantize_pack_sparse_mla_cache(latent_kv, kv_layout=kv_layout)

    def sparse(self, q, indices, extra_indices, out_lse, mid_out, mid_lse, prefill_impl, return_lse, **rest):
        served = self.package.sources.constant(STATIC_FORMAT)
        if q.shape[1] not in served["heads"] or indices.shape[-1] not in served["topks"]:
            raise ValueError("no NVFP4 attention route serves this metadata")
        chunks = num_chunks(indices.shape[-1], 0 if extra_indices is None else extra_indices.shape[-1])
        assert chunks <= 16
        mla.cake_sparse_mla_sm120_dsv4_nvfp4_decode(
            query_as_used(q, "nvfp4"),
            indices=indices,
            extra_indices=extra_indices,
            out_lse=out_lse,
            num_splits=1,
            head_tiles=1,
            **rest,
        )
