"""The op as torch sees it: opcheck, torch.compile, fake tensors, dispatch modes."""

import sys
from subprocess import run

import numpy as np
import pytest
import torch
from mla_arguments import OPS, call, op_arguments, valid_arguments
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from cake_tune.errors import ContractError
from cake_tune.mla import nvfp4_quantize_append_sparse_mla_cache, nvfp4_quantize_pack_sparse_mla_cache


@pytest.mark.parametrize("kernel", OPS)
@pytest.mark.parametrize("padded", [False, True])
def test_opcheck(kernel, padded):
    """Schema, fake implementation, autograd registration and AOT dispatch are what torch expects."""
    changes = {}
    if padded:
        changes["kv_cache"] = torch.zeros(4, 64 * 384 + 32, dtype=torch.uint8)[:, : 64 * 384].view(4, 1, 64, 384)
    op = getattr(torch.ops.cake_tune, f"sparse_mla_{kernel}").default
    torch.library.opcheck(op, op_arguments(**valid_arguments(kernel, **changes)))


def test_opcheck_of_the_cache_ops():
    """The same for pack and append."""
    rows = torch.randn(2, 4, 512).bfloat16()
    torch.library.opcheck(torch.ops.cake_tune.nvfp4_pack_sparse_mla_cache.default, (rows,))
    cache = nvfp4_quantize_pack_sparse_mla_cache(rows)
    arguments = (rows[0].clone(), torch.tensor([0, 3, 3, -1]), cache)
    torch.library.opcheck(torch.ops.cake_tune.nvfp4_append_sparse_mla_cache.default, arguments)


def test_plain_calls_do_not_load_dynamo():
    """Torch imports Dynamo for the first custom op: seconds, which a process that compiles nothing does not pay."""
    code = """
import sys, torch
from cake_tune.mla import *
rows = torch.randn(2, 64, 512).bfloat16()
cache = nvfp4_quantize_pack_sparse_mla_cache(rows)
nvfp4_quantize_append_sparse_mla_cache(rows[0], torch.arange(64), cache)
query, indices = torch.randn(1, 16, 512).bfloat16(), torch.arange(128, dtype=torch.int32).view(1, 128)
output, lse = torch.empty_like(query), torch.empty(1, 16)
cake_sparse_mla_sm120_dsv4_nvfp4_decode(query, cache, indices, output, lse, 0.1, num_splits=1)
cake_sparse_mla_sm120_dsv4_nvfp4_prefill(query, cache, indices, output, lse, 0.1)
dequantize_sparse_mla_cache(cache), sparse_mla_reference(query, cache, indices, 0.1)
print("torch._dynamo" in sys.modules)
"""
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


@pytest.mark.filterwarnings("ignore")  # that jit is deprecated, and that sizes become constants
def test_traced_by_jit_each_call_is_one_op():
    arguments = valid_arguments()
    rows, cache, slots = torch.randn(2, 64, 512).bfloat16(), arguments["kv_cache"].clone(), torch.arange(64)

    def write(rows, slots, cache):
        nvfp4_quantize_append_sparse_mla_cache(rows[0], slots, cache)
        return nvfp4_quantize_pack_sparse_mla_cache(rows)

    def attend(query, cache):
        OPS["decode"](**(arguments | {"q": query, "kv_cache": cache}))
        return arguments["output"] + 0

    writing = torch.jit.trace(write, (rows, slots, cache))
    attending = torch.jit.trace(attend, (arguments["q"], arguments["kv_cache"]))
    ops = [node.kind() for traced in (writing, attending) for node in traced.graph.nodes()]
    assert sorted(op.removeprefix("cake_tune::") for op in ops if op.startswith("cake_tune::")) == [
        "nvfp4_append_sparse_mla_cache",
        "nvfp4_pack_sparse_mla_cache",
        "sparse_mla_decode",
    ]
    again = rows * 2
    assert torch.equal(writing(again, slots, cache), nvfp4_quantize_pack_sparse_mla_cache(again))
    assert torch.equal(attending(arguments["q"], cache), attend(arguments["q"], cache))


@pytest.mark.parametrize("kernel", OPS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_in_one_graph_gives_the_same_bits(kernel, backend):
    """At several T, through the table's plan, with work before and after in the same graph."""
    torch._dynamo.reset()

    def layer(arguments):
        arguments = arguments | {"q": arguments["q"] * 2}
        plan = OPS[kernel](**arguments)
        return arguments["output"] + 1, plan

    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for num_tokens in (2, 3, 5):
        free = {"num_splits": None} if kernel == "decode" else {}
        arguments = valid_arguments(kernel, num_tokens=num_tokens, head_tiles=None, **free)
        expected, plan = layer(arguments)
        lse = arguments["out_lse"].clone()
        arguments["out_lse"].zero_()
        arguments["output"].zero_()
        result, compiled_plan = compiled(arguments)
        assert torch.equal(result, expected) and torch.equal(arguments["out_lse"], lse)
        assert compiled_plan == plan


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
def test_compiled_by_inductor():
    """The default backend, once: pack, append and decode in one graph, none of which it has to generate code for."""
    torch._dynamo.reset()
    arguments = valid_arguments()
    rows, slots = torch.randn(4, 64, 512).bfloat16(), torch.arange(64)

    def layer(rows, slots, arguments):
        cache = nvfp4_quantize_pack_sparse_mla_cache(rows)
        nvfp4_quantize_append_sparse_mla_cache(rows[1], slots, cache)
        OPS["decode"](**(arguments | {"kv_cache": cache}))

    layer(rows, slots, arguments)
    expected = arguments["output"].clone()
    arguments["output"].zero_()
    torch.compile(layer, fullgraph=True)(rows, slots, arguments)
    assert torch.equal(arguments["output"], expected)


@pytest.mark.parametrize("kernel", OPS)
def test_fake_and_meta_tensors_run_nothing(kernel):
    """Shapes alone are enough to trace; the plan still comes back."""
    arguments = valid_arguments(kernel)
    with FakeTensorMode() as mode:
        fake = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
        assert call(kernel, **fake)["head_tiles"] == 1
    meta = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    assert call(kernel, **meta)["head_tiles"] == 1


@pytest.mark.parametrize("kernel", OPS)
def test_dispatch_modes_see_the_op(kernel):
    """A profiler or tracer finds one op, by its name; an eager call outside gives the same bits."""
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    arguments = valid_arguments(kernel)
    call(kernel, **arguments)
    expected = arguments["output"].clone()
    arguments["output"].zero_()
    with Watch():
        call(kernel, **arguments)
    assert f"cake_tune::sparse_mla_{kernel}" in seen
    assert torch.equal(arguments["output"], expected)


@pytest.mark.parametrize("kernel", OPS)
def test_the_op_itself_is_checked(kernel):
    """Compiled programs get the contract's errors too, when they run."""
    arguments = op_arguments(**valid_arguments(kernel, out_lse=torch.empty(2, 31)))
    with pytest.raises(ContractError, match=r"^out_lse: expected"):
        getattr(torch.ops.cake_tune, f"sparse_mla_{kernel}")(*arguments)


@pytest.mark.parametrize("kernel", OPS)
def test_numbers_of_any_type_trace(kernel):
    """NumPy's too, where no data is: what the dispatcher itself would not take."""
    arguments = valid_arguments(kernel, sm_scale=np.float32(0.05), lse_scale=np.float64(2), head_tiles=np.int64(1))
    meta = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    assert call(kernel, **meta)["head_tiles"] == 1
    call(kernel, **arguments)
    expected = arguments["output"].clone()
    call(kernel, **(arguments | {"sm_scale": float(np.float32(0.05)), "lse_scale": 2, "head_tiles": 1}))
    assert torch.equal(arguments["output"], expected)
    with pytest.raises(ContractError, match=r"^lse_scale: expected a finite number"):
        call(kernel, **(meta | {"lse_scale": np.float32("nan")}))


@pytest.mark.parametrize("kernel", OPS)
def test_queries_that_require_grad_are_taken(kernel):
    """The op is for inference: it writes plain outputs, whatever its inputs record."""
    arguments = valid_arguments(kernel)
    arguments["q"].requires_grad_()
    call(kernel, **arguments)
    assert not arguments["output"].requires_grad
