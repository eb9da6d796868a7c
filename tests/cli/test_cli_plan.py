"""``plan`` as a user types it: lists, no tokens, whose kernels, and GPUs that only their names tell apart."""

import json
from pathlib import Path

import pytest
from commands import cake_tune

TABLES = Path(__file__).parents[2] / "cake_tune" / "planner" / "tables"
SHAPE = ("-H", "16", "-k", "512")


@pytest.fixture
def second_gpu(tmp_path):
    """The environment of a user with a table of another GPU of 132 SMs."""
    table = json.loads((TABLES / "nvidia-h200.json").read_text())
    table["device"]["name"] = "NVIDIA H100 80GB HBM3"
    path = tmp_path / "cake-tune" / "tables" / "h100.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(table))
    return {"XDG_DATA_HOME": str(tmp_path)}


@pytest.mark.parametrize("tokens", [("-T", "1,2,4"), ("-T", "1", "-T", "2", "-T", "4"), ("-T", "1, 2", "-T", "4")])
def test_several_tokens_come_with_commas_or_by_repetition(tokens):
    done = cake_tune("plan", *tokens, *SHAPE, "--num-sms", "188", "--json")
    assert [json.loads(line)["num_tokens"] for line in done.stdout.splitlines()] == [1, 2, 4]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-T", "1,,2"), "--num-tokens: expected values with commas between them, got '1,,2'"),
        (("-T", "1-4"), "--num-tokens: expected integers, with commas between them or repeated, got '1-4'"),
        (("-T", "9" * 40), "--num-tokens: expected integers"),
        (("-T", "1,-3"), "num_tokens: expected an integer >= 0, got -3"),
        (("-T", "1", "-b", "flashinfre"), "expected cake_tune or flashinfer, got 'flashinfre' (did you mean \"flash"),
        (("-T", "1", "--device", "h20x"), "--device: expected one of the GPUs with a table, NVIDIA H200 (132 SMs), "),
        (("-T", "1", "--device", ""), "--device: expected one of the GPUs with a table"),
        (("-T", "1", "--device", "rtx"), "5090 (170 SMs), NVIDIA RTX PRO 6000 Blackwell (188 SMs); got 'rtx'"),
        (("-T", "1", "--device", "h200", "--cpu"), "--device: expected without --cpu"),
        (("-T", "1", "--device", "h200", "--table", TABLES / "gb10.json"), "--device, --table: expected one of them"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_no_half_of_an_answer(arguments, said):
    done = cake_tune("plan", *arguments, *SHAPE)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_a_sweeps_backend_is_told_whose_kernels_it_measures(backend):
    done = cake_tune("plan", "-T", "1", *SHAPE, "-b", backend)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: --backend: expected cake_tune or flashinfer, got {backend!r} "
        f"(did you mean cake_tune? Its kernels are what a sweep on {backend} measures)\n"
    )


def test_without_tokens_there_is_nothing_to_run():
    """As in the op, which accepts them: no plan, no scratch."""
    done = cake_tune("plan", "-T", "0,1", *SHAPE, "--num-sms", "188")
    first, second, *_ = done.stdout.splitlines()
    assert first == "T=0 H=16 topk=512: nothing to run: without tokens the op launches nothing and needs no scratch"
    assert second.startswith("T=1 H=16 topk=512: decode")
    done = cake_tune("plan", "-T", "0", *SHAPE, "--num-sms", "188", "--json")
    answer = json.loads(done.stdout)
    assert (answer["plan"], answer["source"], answer["scratch_bytes"]) == (None, None, 0)
    assert answer["why"].startswith("nothing to run")
    assert "num_heads" in cake_tune("plan", "-T", "0", "-H", "17", "-k", "512").stderr


@pytest.mark.parametrize("num_sms", ["188", "170", "48"])
def test_published_rules_say_whose_kernels_they_were_made_for(num_sms):
    answers = {
        backend: json.loads(cake_tune("plan", "-T", "1", *SHAPE, "--num-sms", num_sms, "-b", backend, "--json").stdout)
        for backend in ("cake_tune", "flashinfer")
    }
    assert {each["source"] for each in answers.values()} == {"rule"}
    published = "; FlashInfer publishes these rules for its own kernels"
    assert answers["flashinfer"]["why"].endswith(published)
    assert answers["cake_tune"]["why"].endswith(f"{published}: no sweep has timed this project's kernels there")
    measured = cake_tune("plan", "-T", "1", *SHAPE, "--num-sms", "132").stdout
    assert "FlashInfer" not in measured


def test_of_gpus_with_as_many_sms_the_one_that_answers_is_named_and_another_can_be_asked(second_gpu):
    for command in (("plan", "-T", "1", *SHAPE), ("coverage", "-m", "deepseek-v4-flash")):
        done = cake_tune(*command, "--num-sms", "132", **second_gpu)
        assert "NVIDIA H100 80GB HBM3 (132 SMs, measured)" in done.stdout
        assert done.stderr == (
            "132 SMs: NVIDIA H100 80GB HBM3 (132 SMs, measured) answers; "
            "--device asks for another GPU with as many: NVIDIA H200\n"
        )
        for name, told in (("h200", "NVIDIA H200 (132 SMs"), ("nvidia h100 80gb hbm3", "NVIDIA H100 80GB HBM3 (132")):
            done = cake_tune(*command, "--device", name, **second_gpu)
            assert (done.returncode, done.stderr) == (0, "")
            assert told in done.stdout


def test_one_gpu_with_so_many_sms_needs_no_word():
    done = cake_tune("plan", "-T", "1", *SHAPE, "--num-sms", "132")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_part_of_a_gpu_is_another_size_of_it():
    """The same name with fewer SMs: its table answers, and says that it extrapolates."""
    done = cake_tune("plan", "-T", "1", *SHAPE, "--device", "H200", "--num-sms", "66")
    assert done.returncode == 0
    assert "extrapolated: rules of NVIDIA H200 (132 SMs, measured), extrapolated to 66 SMs" in done.stdout


def test_a_gpu_that_is_named_answers_whatever_the_number_of_sms():
    """188 SMs are another GPU's of the same architecture, whose rules were not asked for."""
    done = cake_tune("plan", "-T", "1", *SHAPE, "--device", "5090", "--num-sms", "188")
    assert "NVIDIA GeForce RTX 5090" in done.stdout
    assert "extrapolated to 188 SMs" in done.stdout
