"""The programs as the driver sees them, every build variant, and the NVFP4 query mode."""

import pytest
import torch
from contract_inputs import make_inputs
from contract_matrix import Case, run_case
from gpu_plans import PLANS, judge, run

from cake_tune.cuda import build_options, loader
from cake_tune.cuda.build import build_one
from cake_tune.cuda.driver import checked, driver
from cake_tune.cuda.manifest import load_manifest
from cake_tune.cuda.options import BuildOptions
from cake_tune.cuda.requirements import arch_of
from cake_tune.errors import ContractError
from cake_tune.mla import (
    check_accuracy,
    dequantize_sparse_mla_cache,
    device_of,
    nvfp4_quantize_pack_sparse_mla_cache,
    sparse_mla_reference,
)

MANIFEST = load_manifest()
VARIANTS = [
    pytest.param(kernel, variant, id=f"{kernel}-{variant.name}")
    for variant in MANIFEST.variants.values()
    for kernel in variant.kernels
]


def runnable(variant):
    """The GPU's architecture; skips the test where the variant is not for it."""
    arch = arch_of(torch.cuda.get_device_capability(), torch.cuda.get_device_name())
    if arch not in variant.archs:
        pytest.skip(f"{variant.name} is not for {arch}")
    return arch


def variant_case(kernel, variant):
    heads = {1: 48, 2: 96, 4: 128}[variant.head_tiles]
    return Case(
        kernel, num_tokens=9, num_heads=heads, topk=700, extra_topk=70, splits=3, tiles=variant.head_tiles,
        mask="random", lengths="random", sink="mixed", page_size=48,
    )  # fmt: skip


@pytest.mark.parametrize(("kernel", "variant"), VARIANTS)
def test_every_variant_meets_the_contract(device, kernel, variant):
    """Build options change the speed, never the answer."""
    runnable(variant)
    case = variant_case(kernel, variant)
    inputs = make_inputs(case, device)
    with build_options(variant=variant.name):
        output, lse = run(case, inputs)
        judge(inputs, output, lse)
        again = run(case, inputs)
    assert torch.equal(again[0], output)
    assert torch.equal(again[1], lse)


@pytest.mark.parametrize(("kernel", "variant"), VARIANTS)
def test_nvfp4_queries_are_exact_against_the_quantised_query(device, kernel, variant):
    """Judged with the query quantised as the cache writer does it, the NVFP4 mode is as exact as the default."""
    runnable(variant)
    case = variant_case(kernel, variant)
    inputs = make_inputs(case, device)
    rows = inputs.q.view(1, -1, 512)
    quantised = dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(rows)).view_as(inputs.q)
    assert not torch.equal(quantised, inputs.q)
    with build_options(qk="nvfp4", variant=variant.name):
        output, lse = run(case, inputs)
    reference = sparse_mla_reference(quantised, inputs.cache, inputs.indices, inputs.sm_scale, **inputs.arguments)
    check_accuracy(output, lse, *reference)


@pytest.mark.parametrize(("kernel", "variant"), VARIANTS)
def test_driver_agrees_with_what_is_read_from_the_cubin(device, kernel, variant):
    """Registers, local and static shared memory, and the CTAs that fit, are what the driver says."""
    arch = runnable(variant)
    with torch.cuda.device(0):
        torch.zeros(1, device=device)
        loaded = loader.loaded_kernel(0, kernel, variant.head_tiles, False, BuildOptions("bf16", variant.name))
        built = build_one(
            loader.specialisation_of(arch, kernel, variant.head_tiles, False, BuildOptions("bf16", variant.name))
        )
        attribute = driver.CUfunction_attribute
        asked = [
            checked(driver.cuFuncGetAttribute(what, loaded.function))
            for what in (
                attribute.CU_FUNC_ATTRIBUTE_NUM_REGS,
                attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
            )
        ]
        takes = built.resources
        assert asked == [takes.registers, takes.static_shared_bytes, takes.local_bytes]
        fitting = checked(
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(loaded.function, loaded.threads, loaded.shared_bytes)
        )
        assert fitting == built.ctas_per_sm


def test_variant_that_cannot_run_the_call_is_refused(device):
    """A variant of four head tiles runs no decode; the message lists those that do."""
    inputs = make_inputs(PLANS[0], device)
    name = MANIFEST.default_variant(device_of(inputs.q.device).arch, "prefill", 4).name
    with build_options(variant=name), pytest.raises(ContractError, match="variant: expected one of"):
        run_case(PLANS[0], inputs)
