"""Checked mode, and what happens to wild slots without it on the CPU."""

import re
import subprocess
import sys

import pytest
from mla_arguments import OPS, PAGE_SIZE, PAGES, call, valid_arguments

from cake_tune.errors import ContractError
from cake_tune.mla import checked_slots, checks

SLOTS = PAGES * PAGE_SIZE
BOUND = re.escape(f"expected slots below num_pages * page_size = {PAGES} * {PAGE_SIZE} = {SLOTS}, got {SLOTS}")


@pytest.mark.parametrize("kernel", OPS)
@pytest.mark.parametrize("name", ["indices", "extra_indices"])
def test_checked_mode_refuses_the_first_slot_outside(kernel, name):
    """Before anything is written."""
    arguments = valid_arguments(kernel)
    arguments["output"].fill_(3)
    arguments[name][1, 5] = SLOTS
    with checked_slots(), pytest.raises(ContractError, match=f"^{name}: {BOUND}"):
        call(kernel, **arguments)
    assert bool((arguments["output"] == 3).all())
    arguments[name][1, 5] = SLOTS - 1
    with checked_slots():
        call(kernel, **arguments)


@pytest.mark.parametrize("kernel", OPS)
def test_what_is_cut_or_masked_is_no_slot(kernel):
    """Beyond a token's length, or negative, any number may stand."""
    arguments = valid_arguments(kernel)
    arguments["topk_length"][:] = 100
    arguments["indices"][:, 100:] = 2**31 - 1
    arguments["indices"][:, 7] = -(2**31)
    with checked_slots():
        call(kernel, **arguments)


@pytest.mark.parametrize("kernel", OPS)
def test_the_cpu_never_reads_outside(kernel):
    """Unchecked, a wild slot on the CPU is an error too, and comes before anything is written."""
    arguments = valid_arguments(kernel)
    arguments["output"].fill_(3)
    arguments["topk_length"][:] = 100
    arguments["indices"][:, 100:] = 2**31 - 1
    with checked_slots(False):
        call(kernel, **arguments)
        arguments["output"].fill_(3)
        arguments["indices"][1, 99] = SLOTS
        with pytest.raises(ContractError, match=f"^indices: {BOUND}"):
            call(kernel, **arguments)
    assert bool((arguments["output"] == 3).all())


def test_the_mode_ends_with_its_block():
    """Also when the block ends in an error, and inside another."""
    before = checks._checked.get()
    with checked_slots():
        with pytest.raises(KeyError), checked_slots(False):
            assert not checks._checked.get()
            raise KeyError
        assert checks._checked.get()
    assert checks._checked.get() == before


@pytest.mark.parametrize(("value", "expected"), [("1", "True"), ("0", "False")])
def test_the_environment_turns_it_on(value, expected):
    """CAKE_TUNE_CHECKED=1 holds for the process."""
    program = "from cake_tune.mla import checks; print(checks._checked.get())"
    result = subprocess.run(
        [sys.executable, "-c", program], env={"CAKE_TUNE_CHECKED": value}, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == expected
