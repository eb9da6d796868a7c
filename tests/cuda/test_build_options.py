"""Build options hold for their block, for their thread, and say what exists."""

import threading

import pytest

from cake_tune.cuda import build_options, kernel_identity
from cake_tune.cuda.manifest import load_manifest
from cake_tune.cuda.options import ENVIRONMENT, BuildOptions, _process_options, chosen_options
from cake_tune.errors import ContractError

DEFAULT = BuildOptions("bf16", None)


@pytest.fixture(autouse=True)
def fresh_process_options():
    _process_options.cache_clear()
    yield
    _process_options.cache_clear()


def test_default_is_a_full_precision_query():
    """Nobody gets a less accurate query without asking for it."""
    assert chosen_options() == DEFAULT
    assert load_manifest().default_qk == "bf16"


def test_options_hold_for_the_block_and_nest():
    """An inner block changes what it names and keeps the rest; afterwards everything is as before."""
    with build_options(qk="nvfp4"):
        with build_options(variant="some"):
            assert chosen_options() == BuildOptions("nvfp4", "some")
        assert chosen_options() == BuildOptions("nvfp4", None)
    assert chosen_options() == DEFAULT


def test_options_end_with_an_error():
    """An exception does not leave the options behind."""
    with pytest.raises(RuntimeError), build_options(qk="nvfp4"):
        raise RuntimeError
    assert chosen_options() == DEFAULT


def test_other_threads_keep_their_own():
    """A thread is not changed by what another one runs with."""
    seen = []
    with build_options(qk="nvfp4"):
        thread = threading.Thread(target=lambda: seen.append(chosen_options()))
        thread.start()
        thread.join()
    assert seen == [DEFAULT]


def test_environment_sets_the_mode_of_the_process(monkeypatch):
    """``CAKE_TUNE_QK`` is the default of every thread, and a wrong value is named."""
    monkeypatch.setenv(ENVIRONMENT, "nvfp4")
    assert chosen_options() == BuildOptions("nvfp4", None)
    _process_options.cache_clear()
    monkeypatch.setenv(ENVIRONMENT, "fp8")
    with pytest.raises(ContractError, match="CAKE_TUNE_QK: expected one of bf16, nvfp4, got 'fp8'"):
        chosen_options()


def test_unknown_mode_lists_the_modes():
    """A misspelt mode is refused where it is written."""
    with pytest.raises(ContractError, match="qk: expected one of bf16, nvfp4, got 'fp4'"), build_options(qk="fp4"):
        pass


def test_identity_names_what_was_built():
    """Sources and compiler always; options where they are not the default, so that rows never mix."""
    plain = kernel_identity()
    assert plain.family == "cake_sparse_mla_sm120_dsv4_nvfp4"
    assert plain.identity == load_manifest().identity
    assert plain.compiler.startswith("nvrtc 13.")
    with build_options(qk="nvfp4", variant="some"):
        assert kernel_identity().identity == f"{plain.identity}+nvfp4+some"
    assert kernel_identity() == plain
