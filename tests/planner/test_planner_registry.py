"""Which table answers: the given one, the device's own, the nearest published; and a CPU's never for a GPU."""

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cake_tune.errors import ContractError, TableError
from cake_tune.planner import environment
from cake_tune.planner.environment import ENVIRONMENT, LOOK_SECONDS
from cake_tune.planner.plans import cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel as select_kernel
from cake_tune.planner.registry import (
    forget_tables,
    install_table,
    installed_tables,
    nearest_published,
    table_for,
    use_device,
    use_table,
    user_tables_dir,
)
from cake_tune.planner.rules import DecodeLimit
from cake_tune.planner.shape import Device
from cake_tune.planner.table import Provenance, save_table

PRO_6000 = Device("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120a", 188)
H800 = Device("NVIDIA H800", "sm_90a", 130)
CPU = Device("some CPU", "cpu", 2)
SIMULATED = Device("simulated RTX 5090", "simulated", 170)


@pytest.fixture(scope="module")
def table_of(shipped):
    def build(device, kind="measured", source="a sweep"):
        return replace(shipped[188], device=device, provenance=Provenance(kind, source))

    return build


def test_without_a_device_the_shipped_rtx_pro_6000_answers(shipped):
    assert table_for() == (shipped[188], True)


@pytest.mark.parametrize(
    ("num_sms", "nearest"), [(1, 48), (48, 48), (109, 48), (110, 170), (130, 170), (179, 170), (180, 188), (999, 188)]
)
def test_num_sms_alone_finds_the_nearest_published_rules(shipped, num_sms, nearest):
    assert table_for(num_sms=num_sms) == (shipped[nearest], num_sms in shipped)


def test_a_device_finds_its_own_by_name_then_by_arch_and_num_sms(shipped, table_of):
    assert table_for(PRO_6000) == (shipped[188], True)
    assert table_for(replace(PRO_6000, name=shipped[188].device.name)) == (shipped[188], True)
    twin = table_of(replace(PRO_6000, name="NVIDIA RTX PRO 6000 Blackwell Server Edition"))
    install_table(twin)
    assert table_for(PRO_6000) == (twin, True)
    own = table_of(PRO_6000)
    install_table(own)
    assert table_for(PRO_6000) == (own, True)
    assert table_for(twin.device) == (twin, True)


def test_an_unknown_gpu_gets_the_nearest_published_rules_not_another_gpus_measurements(shipped, table_of):
    install_table(table_of(replace(H800, num_sms=169)))
    assert table_for(Device("NVIDIA RTX 5080", "sm_120a", 84)) == (shipped[48], False)
    assert table_for(Device("NVIDIA X", "sm_120a", 168)) == (shipped[170], False)


def test_another_arch_with_the_same_num_sms_is_not_the_devices_own(shipped):
    assert table_for(replace(H800, num_sms=188)) == (shipped[188], False)


def test_a_partition_of_a_gpu_extrapolates_from_the_whole_one(table_of):
    install_table(table_of(H800))
    table, own = table_for(replace(H800, num_sms=60))
    assert (table.device, own) == (H800, False)
    assert table_for(H800, num_sms=60) == (table, False)


def test_installed_comes_before_shipped_and_measured_before_published(shipped, table_of):
    published = table_of(replace(PRO_6000, name="a"), "published")
    measured = table_of(replace(PRO_6000, name="b"))
    install_table(published)
    assert table_for(num_sms=188) == (published, True)
    install_table(measured)
    assert table_for(num_sms=188) == (measured, True)
    assert installed_tables() == (measured, published)


def test_installing_again_replaces_the_devices_table(table_of):
    first, second = (table_of(H800, source=source) for source in ("first", "second"))
    assert install_table(first) == install_table(second)
    assert table_for(H800) == (second, True)
    assert installed_tables() == (second,)


def test_tables_are_installed_in_the_users_data_directory(tmp_path, table_of):
    path = install_table(table_of(replace(H800, name="NVIDIA H800 / NVL")))
    assert path == user_tables_dir() / "nvidia-h800-nvl-sm_90a-130.json"
    assert tmp_path in path.parents


def test_a_place_where_nothing_can_be_installed_is_named(tmp_path, monkeypatch, table_of):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(TableError, match="cannot be made"):
        install_table(table_of(H800))


@pytest.mark.parametrize("text", ["{", '{"schema_version": 1}', "\udcff"])
def test_an_installed_table_that_cannot_be_read_is_left_out_with_one_warning(caplog, shipped, table_of, text):
    good = install_table(table_of(PRO_6000))
    broken = install_table(table_of(H800))
    broken.write_text(text, errors="surrogateescape")
    for _ in range(2):
        forget_tables()
        assert table_for(PRO_6000) == (table_of(PRO_6000), True)
        assert table_for(H800) == (shipped[170], False)
        assert table_for(num_sms=48) == (shipped[48], True)
        assert installed_tables() == (table_of(PRO_6000),)
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert f"{broken}: " in warning.message
    assert str(good) not in warning.message


def test_a_given_table_that_cannot_be_read_stays_an_error_however_it_is_given(monkeypatch, table_of):
    path = install_table(table_of(H800))
    path.write_text("{")
    with pytest.raises(TableError, match="not JSON"):
        use_table(path)
    monkeypatch.setenv(ENVIRONMENT, str(path))
    forget_tables()
    with pytest.raises(TableError, match="not JSON"):
        table_for(PRO_6000)


@pytest.mark.parametrize("num_sms", [1, 60, 109, 110, 179, 400])
def test_the_nearest_published_table_has_the_nearest_num_sms(shipped, num_sms):
    nearest = nearest_published(num_sms)
    assert nearest in shipped.values()
    assert abs(nearest.device.num_sms - num_sms) == min(abs(sms - num_sms) for sms in shipped)


def test_the_device_in_use_is_asked_for_where_no_other_is_named(shipped, table_of):
    own = table_of(H800)
    install_table(own)
    assert table_for() == (shipped[188], True)
    with use_device(H800) as device:
        assert device is H800
        assert table_for() == table_for(num_sms=130) == (own, True)
        assert table_for(num_sms=170) == (shipped[170], True)
        assert table_for(PRO_6000) == (shipped[188], True)
        with use_device(CPU):
            assert table_for()[0].provenance.kind == "published"
        assert table_for() == (own, True)
    assert table_for() == (shipped[188], True)


def test_a_device_in_use_gets_its_own_table_though_another_has_as_many_sms(table_of):
    mine, other = replace(H800, num_sms=48), Device("NVIDIA A", "sm_120a", 48)
    for device in (mine, other):
        install_table(table_of(device))
    for device in (mine, other):
        with use_device(device):
            assert table_for(num_sms=48) == (table_of(device), True)


@pytest.mark.parametrize("device", [H800, Device("NVIDIA GB10", "sm_121a", 48)])
def test_a_given_cpu_table_refuses_a_gpu_in_use_whatever_num_sms_is_asked(table_of, device):
    cpu = replace(CPU, num_sms=48)
    with use_table(table_of(cpu)), use_device(device):
        for question in ({}, {"num_sms": 48}, {"num_sms": 130}):
            with pytest.raises(TableError, match="no GPU, so it cannot answer for"):
                table_for(**question)
        with pytest.raises(TableError, match="no GPU"):
            select_kernel(num_tokens=1, num_heads=64, topk=512, num_sms=48)
        assert table_for(cpu) == (table_of(cpu), True)
    with use_table(table_of(cpu)), use_device(cpu):
        assert table_for() == table_for(num_sms=48) == (table_of(cpu), True)
        with pytest.raises(TableError, match="cannot answer for 130 SMs"):
            table_for(num_sms=130)


def test_planners_answer_from_the_table_of_the_device_in_use(table_of):
    own = table_of(H800)
    install_table(replace(own, rules=replace(own.rules, decode_max_tokens=(DecodeLimit(num_tokens=None),))))
    install_table(table_of(Device("NVIDIA A", "sm_120a", 130)))
    question = {"num_tokens": 64, "num_heads": 64, "topk": 512, "num_sms": 130}
    assert select_kernel(**question) == "prefill"
    with use_device(H800):
        assert select_kernel(**question) == "decode"
    assert select_kernel(**question) == "prefill"


def test_the_environment_stands_above_the_devices_own_and_use_table_above_it(tmp_path, monkeypatch, shipped, table_of):
    path = tmp_path / "given.json"
    given_by_path = table_of(H800)
    save_table(given_by_path, path)
    monkeypatch.setenv(ENVIRONMENT, str(path))
    forget_tables()
    assert table_for(PRO_6000) == (given_by_path, False)
    assert table_for(H800) == (given_by_path, True)
    assert table_for() == (given_by_path, True)
    assert table_for(num_sms=130) == (given_by_path, True)
    assert table_for(num_sms=188) == (given_by_path, False)
    with use_table(shipped[48]) as used:
        assert used is shipped[48]
        assert table_for(H800) == (shipped[48], False)
    assert table_for(H800) == (given_by_path, True)


def test_an_empty_environment_variable_gives_no_table(monkeypatch, shipped):
    monkeypatch.setenv(ENVIRONMENT, "")
    forget_tables()
    assert table_for() == (shipped[188], True)


class Clock:
    """Stands still until it is moved: nothing else may decide when the environment is looked at again."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(environment, "monotonic", lambda: self.now)
        forget_tables()


def test_the_environment_and_its_file_are_looked_at_again_every_half_second(tmp_path, monkeypatch, shipped, table_of):
    path = tmp_path / "given.json"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    first, second = (table_of(H800, source=source) for source in ("first", "later"))
    clock = Clock(monkeypatch)
    save_table(first, path)
    assert table_for()[0] == first
    save_table(second, path)
    os.utime(path, ns=(1, 1))
    clock.now += 0.75 * LOOK_SECONDS
    assert table_for()[0] == first
    clock.now += 0.25 * LOOK_SECONDS
    assert table_for()[0] == second
    held = table_for()[0]
    clock.now += LOOK_SECONDS
    assert table_for()[0] is held
    monkeypatch.delenv(ENVIRONMENT)
    forget_tables()
    assert table_for()[0] == shipped[188]


@pytest.mark.parametrize(
    ("text", "message"), [(None, "cannot be read: No such file"), ("{", "line 1, column 2: not JSON")]
)
def test_a_broken_table_in_the_environment_is_an_error_never_a_fallback(tmp_path, monkeypatch, text, message):
    path = tmp_path / "given.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(ENVIRONMENT, str(path))
    forget_tables()
    for _ in range(2):
        with pytest.raises(TableError, match=rf"CAKE_TUNE_TABLE: .*given\.json: {message}"):
            table_for(num_sms=188)


def test_use_table_holds_until_it_is_taken_back_and_blocks_nest(tmp_path, shipped):
    path = tmp_path / "given.json"
    save_table(shipped[170], path)
    assert use_table(path).value == shipped[170]
    assert table_for()[0] == shipped[170]
    with use_table(shipped[48]):
        with use_table(None):
            assert table_for()[0] == shipped[188]
        assert table_for()[0] == shipped[48]
    assert table_for()[0] == shipped[170]
    use_table(None)
    assert table_for()[0] == shipped[188]


def test_use_table_refuses_a_file_that_is_no_table_and_keeps_the_one_in_force(tmp_path, shipped):
    use_table(shipped[48])
    with pytest.raises(TableError, match="cannot be read"):
        use_table(str(tmp_path / "absent.json"))
    assert table_for()[0] == shipped[48]


@pytest.mark.parametrize("device", [CPU, SIMULATED])
def test_a_given_table_of_no_gpu_answers_its_kind_and_refuses_a_gpu(table_of, device):
    with use_table(table_of(device)) as table:
        assert table_for(device) == (table, True)
        assert table_for(replace(device, num_sms=4)) == (table, False)
        assert table_for() == (table, True)
        assert table_for(num_sms=device.num_sms) == (table, True)
        for question in ({"device": H800}, {"device": replace(H800, num_sms=device.num_sms)}, {"num_sms": 188}):
            with pytest.raises(TableError, match=f"{device.name}.* no GPU, so it cannot answer for"):
                table_for(**question)


@pytest.mark.parametrize("device", [CPU, SIMULATED])
def test_an_installed_table_of_no_gpu_is_found_by_the_identical_device_only(shipped, table_of, device):
    table = table_of(device)
    install_table(table)
    assert table_for(device) == (table, True)
    for other in (replace(device, num_sms=device.num_sms + 1), replace(device, name="another")):
        assert table_for(other)[0].provenance.kind == "published"
    assert table_for(num_sms=device.num_sms)[0].device.is_gpu
    assert table_for(replace(device, arch="sm_120a"))[0].device.is_gpu


names = st.sampled_from(["A", "B", "NVIDIA RTX PRO 6000 Blackwell"])
sms = st.sampled_from([2, 48, 132, 188])
gpus = st.builds(Device, names, st.sampled_from(["sm_120a", "sm_90a"]), sms)
any_devices = st.builds(Device, names, st.sampled_from(["sm_120a", "sm_90a", "cpu", "simulated"]), sms)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    installed=st.lists(any_devices, max_size=3),
    used=st.none() | any_devices,
    device=st.none() | gpus,
    num_sms=st.none() | sms,
    kind=st.sampled_from(["measured", "published"]),
)
def test_no_cpu_or_simulated_table_ever_answers_for_a_gpu(table_of, tmp_path, installed, used, device, num_sms, kind):
    for path in user_tables_dir().glob("*.json"):
        path.unlink()
    for entry in installed:
        install_table(table_of(entry, kind))
    forget_tables()
    with use_table(None if used is None else table_of(used, kind)):
        try:
            table, own = table_for(device, num_sms)
        except TableError:
            assert used is not None
            assert not used.is_gpu
            return
    if device is not None:
        assert table.device.is_gpu
        asked = device.num_sms if num_sms is None else num_sms
        assert own == (table.device.arch == device.arch and table.device.num_sms == asked)
    elif used is None:
        assert table.device.is_gpu
    elif not used.is_gpu:
        assert num_sms in (None, used.num_sms)


@pytest.mark.parametrize("given", ["cuda:0", 0, ("NVIDIA H800", "sm_90a", 132)])
def test_only_a_device_can_be_put_in_force(given):
    with pytest.raises(ContractError, match=r"device: expected a Device, such as cake_tune\.device_of"):
        use_device(given)
