"""The decode configs: the published families, the questions they answer, top-ks from the table in force."""

import csv
import io
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.config import SparseMLASm120DecodeConfig, supported_sparse_mla_sm120_configs
from cake_tune.errors import TableError, UsageError
from cake_tune.planner import registry
from cake_tune.planner.environment import ENVIRONMENT
from cake_tune.planner.shape import HEAD_COUNTS, Device
from cake_tune.planner.table import save_table

PUBLISHED = """\
family,format,d_qk,topks,min_topk,bytes
dsv4,fp8,512,128 192 256 512 1024,1,584
dsv3_2,fp8,576,128 512 1024 2048,1,656
glm_nsa,fp8,576,128 512 1024 2048,1,656
glm53_nope,fp8,512,2176,1,528
dots3_swa,fp8,1088,576,513,1160
dsv4,nvfp4,512,128 512,1,384
"""


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch, tmp_path):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    registry.forget_tables()
    with registry.use_table(None), registry.use_device(None):
        yield
    registry.forget_tables()


@pytest.mark.parametrize(
    "row", list(csv.DictReader(io.StringIO(PUBLISHED))), ids=lambda row: f"{row['family']}-{row['format']}"
)
def test_each_family_is_as_published(row):
    config = supported_sparse_mla_sm120_configs(kv_cache_format=row["format"])[row["family"]]
    assert config == SparseMLASm120DecodeConfig(
        d_qk=int(row["d_qk"]),
        page_block_size=64,
        max_num_tokens=64,
        topks=frozenset(map(int, row["topks"].split())),
        min_topk=int(row["min_topk"]),
        max_num_heads=128,
        kv_cache_format=row["format"],
        bytes_per_token=int(row["bytes"]),
        head_counts=frozenset(HEAD_COUNTS) if row["format"] == "nvfp4" else None,
        topk_is_runtime=True,
        extra_page_block_sizes=frozenset(),
    )


def test_fp8_is_the_default_and_no_family_is_missing_or_added():
    assert list(supported_sparse_mla_sm120_configs()) == ["dsv4", "dsv3_2", "glm_nsa", "glm53_nope", "dots3_swa"]
    assert list(supported_sparse_mla_sm120_configs(kv_cache_format="nvfp4")) == ["dsv4"]


def test_another_format_is_refused_by_name():
    with pytest.raises(UsageError, match="kv_cache_format: expected one of fp8, nvfp4, got 'int4'") as caught:
        supported_sparse_mla_sm120_configs(kv_cache_format="int4")
    assert isinstance(caught.value, ValueError)


def test_fields_are_frozen_and_in_the_published_order():
    assert [field.name for field in fields(SparseMLASm120DecodeConfig)] == [
        "d_qk",
        "page_block_size",
        "max_num_tokens",
        "topks",
        "min_topk",
        "max_num_heads",
        "kv_cache_format",
        "bytes_per_token",
        "head_counts",
        "topk_is_runtime",
        "extra_page_block_sizes",
    ]
    config = SparseMLASm120DecodeConfig(512, 64, 64, frozenset({128}), 1, 128)
    assert (config.kv_cache_format, config.bytes_per_token, config.head_counts) == ("fp8", 0, None)
    with pytest.raises(FrozenInstanceError):
        config.d_qk = 576


@pytest.fixture
def other_table():
    shipped = registry.load_table(registry.SHIPPED / registry.DEFAULT)
    return replace(shipped, calibrated_topks=(64, 192, 1152))


def nvfp4():
    return supported_sparse_mla_sm120_configs(kv_cache_format="nvfp4")["dsv4"]


def test_nvfp4_topks_are_those_of_the_table_in_force(tmp_path, monkeypatch, other_table):
    with registry.use_table(other_table):
        assert nvfp4().supported_topk() == (64, 192, 1152)
    assert nvfp4().supported_topk() == (128, 512)
    save_table(other_table, tmp_path / "table.json")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "table.json"))
    registry.forget_tables()
    assert nvfp4().supported_topk() == (64, 192, 1152)


def test_nvfp4_topks_are_those_of_the_own_table_of_the_device_in_use(other_table):
    h200, cpu = Device("NVIDIA H200", "sm_90a", 132), Device("some CPU", "cpu", 2)
    registry.install_table(replace(other_table, device=h200))
    registry.install_table(replace(other_table, device=cpu, calibrated_topks=(96,)))
    assert nvfp4().supported_topk() == (128, 512)
    with registry.use_device(h200):
        assert nvfp4().supported_topk() == (64, 192, 1152)
        with registry.use_device(cpu):
            assert nvfp4().supported_topk() == (96,)
    with registry.use_device(Device("NVIDIA GeForce RTX 5090", "sm_120a", 170)):
        assert nvfp4().supported_topk() == (128, 512)
    assert nvfp4().supported_topk() == (128, 512)


def test_a_cpus_table_in_force_is_refused_to_a_gpu_in_use(other_table):
    table = replace(other_table, device=Device("some CPU", "cpu", 132))
    with registry.use_table(table), registry.use_device(Device("NVIDIA H200", "sm_90a", 132)):
        with pytest.raises(TableError, match="no GPU"):
            nvfp4()
        assert supported_sparse_mla_sm120_configs()["dsv4"].supported_topk()


def test_a_broken_table_in_force_is_an_error_for_nvfp4_and_nothing_to_fp8(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "absent.json"))
    registry.forget_tables()
    with pytest.raises(TableError, match="CAKE_TUNE_TABLE"):
        nvfp4()
    assert supported_sparse_mla_sm120_configs()["dsv4"].supported_topk() == (128, 192, 256, 512, 1024)


configs = st.builds(
    SparseMLASm120DecodeConfig,
    d_qk=st.just(512),
    page_block_size=st.sampled_from([32, 64]),
    max_num_tokens=st.integers(1, 64),
    topks=st.frozensets(st.integers(1, 20), min_size=1),
    min_topk=st.integers(1, 10),
    max_num_heads=st.integers(1, 20),
    head_counts=st.none() | st.frozensets(st.integers(1, 20)),
    topk_is_runtime=st.booleans(),
)


@given(configs, st.integers(-1, 22), st.integers(0, 22), st.integers(0, 70), st.sampled_from([None, 32, 64]))
def test_decode_is_supported_exactly_when_every_condition_holds(config, num_heads, topk, num_tokens, page):
    conditions = (
        num_tokens <= config.max_num_tokens,
        page is None or page == config.page_block_size,
        num_heads in config.supported_num_heads(),
        topk >= config.min_topk if config.topk_is_runtime else topk in config.topks,
    )
    assert config.supports_decode(num_heads, topk, num_tokens=num_tokens, page_block_size=page) == all(conditions)


@given(configs, st.integers(-1, 22))
def test_head_counts_and_topks_are_sorted_and_empty_outside_the_envelope(config, num_heads):
    counts = config.supported_num_heads()
    assert list(counts) == sorted(set(counts))
    assert set(counts) == (
        set(range(1, config.max_num_heads + 1)) if config.head_counts is None else config.head_counts
    )
    assert config.supported_topk() == tuple(sorted(config.topks))
    assert config.supported_topk(num_heads) == (config.supported_topk() if num_heads in counts else ())
