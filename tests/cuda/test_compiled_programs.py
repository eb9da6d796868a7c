"""What every program is made of, for the three architectures, without a GPU."""

import pytest
from compiled_kernels import ATTENTION, MANIFEST, SPECIALISATIONS, disassemble

from cake_tune.cuda.program_cache import load_cubin
from cake_tune.cuda.specialisation import Specialisation

SM_120 = [one for one in ATTENTION if one.arch in ("sm_120a", "sm_121a")]


@pytest.mark.slow
@pytest.mark.parametrize("specialisation", SPECIALISATIONS, ids=str)
def test_program_spills_nothing_and_fits_its_target(built, specialisation):
    """No register is spilled, no array is in local memory, and at least one CTA fits a multiprocessor."""
    one = built[specialisation]
    shared = one.resources.static_shared_bytes + one.dynamic_shared_bytes
    assert one.resources.local_bytes == 0
    assert 0 < one.resources.registers <= 255
    assert shared <= MANIFEST.max_shared_bytes[specialisation.arch]
    assert one.ctas_per_sm >= 1


@pytest.mark.slow
@pytest.mark.parametrize("specialisation", [one for one in SM_120 if one.qk == "nvfp4"], ids=str)
def test_nvfp4_queries_use_the_block_scaled_matrix_instruction(built, programs, tmp_path, specialisation):
    """The NVFP4 query mode of sm_120a and sm_121a runs on OMMA, not on an emulation."""
    assert "OMMA" in disassemble(load_cubin(MANIFEST, specialisation, programs), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("specialisation", [one for one in ATTENTION if one.qk == "bf16"], ids=str)
def test_full_precision_queries_use_matrix_instructions_and_asynchronous_copies(
    built, programs, tmp_path, specialisation
):
    """HMMA or, with warpgroups, HGMMA; gathers by LDGSTS; no local memory; no block-scaled instruction."""
    code = disassemble(load_cubin(MANIFEST, specialisation, programs), tmp_path)
    warpgroups = dict(specialisation.variant.macros)["CAKE_WARPGROUP"]
    assert ("HGMMA" if warpgroups else "HMMA") in code
    assert "LDGSTS" in code
    assert "OMMA" not in code
    assert "LDL" not in code
    assert "STL" not in code


@pytest.mark.slow
@pytest.mark.parametrize(
    "specialisation", [one for one in ATTENTION if one.variant.name.endswith("_wgmma") and not one.dual_cache], ids=str
)
def test_warpgroup_products_run_side_by_side(built, programs, tmp_path, specialisation):
    """The compiler waits where the source says so (scores, values of either warpgroup), not behind every product."""
    code = disassemble(load_cubin(MANIFEST, specialisation, programs), tmp_path)
    assert code.count("HGMMA") > 40
    assert code.count("WARPGROUP.DEPBAR") < 5


@pytest.mark.slow
def test_emulated_matrix_instruction_stays_off_the_targets(built, programs, tmp_path):
    """The NVFP4 query mode of sm_90a has no block-scaled instruction to use, and compiles all the same."""
    emulated = [one for one in ATTENTION if one.arch == "sm_90a" and one.qk == "nvfp4"]
    assert emulated
    assert "OMMA" not in disassemble(load_cubin(MANIFEST, emulated[0], programs), tmp_path)


def test_merge_loads_vectors(programs, tmp_path):
    """Partials are read 16 bytes at a time."""
    code = disassemble(load_cubin(MANIFEST, Specialisation("sm_120a", "merge"), programs), tmp_path)
    assert "LDG.E.128" in code
