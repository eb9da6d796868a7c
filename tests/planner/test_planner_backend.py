"""Tables of this project's kernels and of FlashInfer's on one device: each answers for its own."""

from dataclasses import replace

import pytest

from cake_tune.config import supported_sparse_mla_sm120_configs
from cake_tune.errors import ContractError
from cake_tune.planner.backend import backend_of_sweep, swept_on
from cake_tune.planner.plans import cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel as select_kernel
from cake_tune.planner.registry import (
    forget_tables,
    install_table,
    installed_tables,
    table_for,
    use_backend,
    use_device,
    use_table,
    user_tables_dir,
)
from cake_tune.planner.rules import DecodeLimit
from cake_tune.planner.shape import Device
from cake_tune.planner.table import Provenance, save_table

GPU = Device("NVIDIA RTX 5080", "sm_120a", 84)


@pytest.fixture
def swept(shipped):
    """Builds the table of a sweep on a backend."""

    def build(backend, device=GPU, **changes):
        return replace(shipped[188], device=device, provenance=Provenance("measured", swept_on(backend)), **changes)

    return build


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("cuda", "cake_tune"),
        ("cpu", "cake_tune"),
        ("flashinfer", "flashinfer"),
        ("flashinfer:pack=flashinfer", "flashinfer"),
        ("faults:cuda:hang@decode/*", "cake_tune"),
        ("simulated:rtx-5090", None),
        ("faults:simulated:crash@*", None),
    ],
)
def test_a_backend_of_a_spec_measures_one_of_the_two_or_none(swept, name, backend):
    assert backend_of_sweep(name) == swept(name).backend == backend


def test_texts_tell_the_tables_of_one_device_apart(swept):
    assert swept("cuda").label == "NVIDIA RTX 5080 (84 SMs, measured)"
    assert swept("flashinfer").label == "NVIDIA RTX 5080 (84 SMs, measured on flashinfer)"


def test_published_rules_and_tables_that_do_not_say_are_of_neither(shipped):
    assert shipped[188].backend is None
    assert replace(shipped[188], provenance=Provenance("measured", "a sweep")).backend is None
    published = Provenance("published", swept_on("flashinfer"))
    assert replace(shipped[188], provenance=published).backend is None


@pytest.mark.parametrize("order", [("cuda", "flashinfer"), ("flashinfer", "cuda")])
def test_both_tables_of_a_device_are_installed_side_by_side(swept, order):
    tables = {backend: swept(backend) for backend in order}
    paths = {backend: install_table(table) for backend, table in tables.items()}
    assert paths["cuda"].name == "nvidia-rtx-5080-sm_120a-84-cake-tune.json"
    assert paths["flashinfer"].name == "nvidia-rtx-5080-sm_120a-84-flashinfer.json"
    for question in ({"device": GPU}, {"num_sms": 84}):
        assert table_for(**question) == table_for(**question, backend="cake_tune") == (tables["cuda"], True)
        assert table_for(**question, backend="flashinfer") == (tables["flashinfer"], True)


def test_the_other_kernels_get_published_rules_not_measurements_of_another_kernel(swept, shipped):
    install_table(swept("flashinfer"))
    assert table_for(GPU) == (shipped[48], False)
    assert table_for(replace(GPU, num_sms=40)) == (shipped[48], False)
    h200 = Device("NVIDIA H200", "sm_90a", 132)
    assert table_for(h200)[0].provenance.kind == "measured"
    assert table_for(h200, backend="flashinfer")[0].provenance.kind == "published"


def test_a_table_that_is_given_answers_for_both(swept):
    with use_table(swept("flashinfer")) as given:
        assert table_for(GPU) == table_for(GPU, backend="flashinfer") == (given, True)


def test_planners_and_config_answer_for_the_backend_in_use(swept):
    install_table(swept("cuda", calibrated_topks=(96,)))
    own = swept("flashinfer", calibrated_topks=(160,))
    install_table(replace(own, rules=replace(own.rules, decode_max_tokens=(DecodeLimit(num_tokens=None),))))
    question = {"num_tokens": 64, "num_heads": 64, "topk": 512, "num_sms": 84}

    def said():
        return select_kernel(**question), *supported_sparse_mla_sm120_configs(kv_cache_format="nvfp4")["dsv4"].topks

    with use_device(GPU):
        assert said() == ("prefill", 96)
        with use_backend("flashinfer") as backend:
            assert backend == "flashinfer"
            assert said() == ("decode", 160)
            with use_backend(None):
                assert said() == ("prefill", 96)
        assert said() == ("prefill", 96)


@pytest.mark.parametrize("name", ["cuda", "FlashInfer", ""])
def test_another_name_is_refused(name):
    with pytest.raises(ContractError, match="backend: expected cake_tune or flashinfer, got"):
        use_backend(name)


def test_an_unknown_backend_is_refused_where_a_table_is_asked_for():
    with pytest.raises(ContractError, match="backend: expected cake_tune or flashinfer, got 'cuda'"):
        table_for(GPU, backend="cuda")


def unnamed(table):
    """Installs a table as before file names told backends apart; returns the file."""
    path = user_tables_dir() / "nvidia-rtx-5080-sm_120a-84.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_table(table, path)
    forget_tables()
    return path


@pytest.mark.parametrize(("old", "other"), [("cuda", "flashinfer"), ("flashinfer", "cuda")])
def test_a_table_installed_under_the_device_alone_is_found_for_its_own_backend(swept, old, other):
    table, backends = swept(old), {"cuda": "cake_tune", "flashinfer": "flashinfer"}
    path = unnamed(table)
    assert table_for(GPU, backend=backends[old]) == (table, True)
    assert table_for(GPU, backend=backends[other])[1] is False
    install_table(swept(other))
    assert path.exists()
    assert table_for(GPU, backend=backends[old]) == (table, True)
    assert table_for(GPU, backend=backends[other]) == (swept(other), True)


def test_a_table_installed_under_the_device_alone_is_replaced_by_a_new_one_of_its_backend(swept):
    path = unnamed(swept("flashinfer", calibrated_topks=(64,)))
    install_table(swept("flashinfer"))
    assert not path.exists()
    assert installed_tables() == (swept("flashinfer"),)


def test_a_table_whose_file_names_its_backend_is_found_before_one_whose_does_not(swept):
    install_table(swept("cuda"))
    unnamed(swept("cuda", calibrated_topks=(64,)))
    assert table_for(GPU) == (swept("cuda"), True)
