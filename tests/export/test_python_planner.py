"""The emitted planner module: it answers as its table does, everywhere, and reads like code that people keep."""

import inspect
import subprocess
import sys
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from planner_strategies import extra_topks, heads, sm_counts, tables, topks

from cake_tune import planner
from cake_tune.errors import UsageError, WrongResultError
from cake_tune.export import check_module, planner_source
from cake_tune.planner import lookup, registry
from cake_tune.planner.cost import CostModel, KernelCost, Order
from cake_tune.planner.outside import METHODS, Outside
from cake_tune.planner.question import ask, guide
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import HEAD_COUNTS, decode_tiles
from cake_tune.planner.table import Region, load_table

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "tests" / "data" / "quickstart-run" / "table.json"
GOLDEN = QUICKSTART.with_name("planner.py")
TABLES = [*sorted(registry.SHIPPED.glob("*.json")), QUICKSTART, ROOT / "tests" / "data" / "report-run" / "table.json"]
PREFIX = "cake_sparse_mla_sm120_dsv4_nvfp4_"
GENERATE = (Phase.explicit, Phase.generate)
"""Without shrinking, which takes minutes where every try starts two processes."""
DENSE = (0, *range(1, 34), *range(40, 132, 4), 95, 97, 129, 191, 192, 193, 255, 256, 511, 512, 513, 1024, 4096)
TOPKS = (1, 63, 64, 65, 127, 128, 129, 192, 511, 512, 513, 639, 640, 1000, 1023, 1024, 1025, 1152, 2048)
EXTRA_TOPKS = (0, 1, 64, 128, 511, 512, 1024)


def module_of(source):
    """The planner functions of a source, by their short names."""
    names = {"__name__": "emitted"}
    exec(compile(source, "emitted.py", "exec"), names)
    return SimpleNamespace(**{name.removeprefix(PREFIX): each for name, each in names.items() if PREFIX in name})


def table_answers(table, shape, num_sms, max_splits=DEFAULT_MAX_SPLITS):
    """(kernel, decode tiles, splits by tiles, prefill tiles) of the table; what it refuses is None."""
    question = ask(*shape, num_sms=num_sms)
    override, model = guide(table, question)
    asked = (table.rules, override, question)
    splits = {
        tiles: outcome(lookup.decode_splits, *asked, max_splits, tiles, model=model)
        for tiles in decode_tiles(question.num_heads)
    }
    return (
        lookup.select_kernel(*asked, model=model),
        lookup.decode_head_tiles(*asked, model=model),
        splits,
        outcome(lookup.prefill_head_tiles, *asked, model=model),
    )


def module_answers(module, shape, num_sms, max_splits=DEFAULT_MAX_SPLITS):
    num_tokens, num_heads, topk, extra_topk = shape
    asked = {"num_tokens": num_tokens, "num_heads": num_heads, "topk": topk, "extra_topk": extra_topk}
    asked["num_sms"] = num_sms
    splits = {
        tiles: outcome(module.plan_splits, **asked, max_splits=max_splits, head_tiles=tiles)
        for tiles in decode_tiles(num_heads)
    }
    return (
        module.select_kernel(**asked),
        module.plan_head_tiles(**asked),
        splits,
        outcome(module.plan_prefill, **asked),
    )


def outcome(function, *arguments, **keywords):
    try:
        return function(*arguments, **keywords)
    except ValueError:
        return None


def shown(path):
    return path.parent.name if path.stem == "table" else path.stem


times = st.floats(0, 50, allow_nan=False).map(lambda drawn: round(drawn, 4))
kernel_costs = st.lists(
    st.sampled_from([("decode", 1), ("decode", 2), ("prefill", 1), ("prefill", 2), ("prefill", 4)]),
    min_size=1,
    unique=True,
).flatmap(
    lambda kinds: st.tuples(
        *(
            st.builds(
                KernelCost,
                kernel=st.just(kernel),
                head_tiles=st.just(tiles),
                heads_per_block=st.sampled_from([16, 32, 64]),
                blocks_per_sm=st.integers(1, 4),
                block_us=times.map(lambda drawn: drawn + 0.25),
                chunk_us=times,
                crowding=st.floats(0, 2),
            )
            for kernel, tiles in sorted(kinds)
        )
    )
)
cost_models = st.builds(
    CostModel,
    launch_us=times,
    gather_us=st.floats(0, 0.5),
    reread=st.floats(0, 1),
    merge_us=times,
    merge_step_us=st.floats(0, 2),
    merge_batch=st.integers(1, 4),
    order=st.sampled_from(get_args(Order)),
    merge_row_us=st.floats(0, 0.01),
    pair_us=st.none() | st.floats(0, 5),
    wave_share=st.floats(0, 1),
    sharpness=st.floats(1, 20),
    kernels=kernel_costs,
)
outsides = st.tuples(st.sampled_from(METHODS), st.sampled_from(METHODS)).flatmap(
    lambda methods: st.builds(
        Outside,
        groups=st.just(methods[0]),
        tokens=st.just(methods[1]),
        why=st.just("by the toss of a coin"),
        cost_model=cost_models if "cost_model" in methods else st.none(),
    )
)


@st.composite
def answering(draw):
    """Any table, with any way to answer for shapes that were not measured; most exceptions are at measured shapes."""
    table = draw(tables)
    if draw(st.booleans()):
        held = {(each.num_heads, each.topk, each.extra_topk): each for each in table.measured}
        for each in table.exceptions:
            tokens = tuple(sorted(draw(st.sets(st.integers(each.min_tokens, each.max_tokens), min_size=1, max_size=3))))
            group = (each.num_heads, each.topk, each.extra_topk)
            held.setdefault(group, Region(*group, decode=tokens))
        table = replace(table, measured=tuple(held[group] for group in sorted(held)))
    return replace(table, outside=draw(st.none() | outsides))


@pytest.mark.parametrize("path", TABLES, ids=shown)
def test_it_answers_as_its_table_on_the_whole_grid(path):
    table = load_table(path)
    module = module_of(planner_source(table))
    measured = {count for each in table.measured for count in (*each.decode, *each.prefill)}
    # A cost model takes a hundred times as long to ask.
    step = 1 if table.outside is None or table.outside.cost_model is None else 11
    for shape in islice(product(sorted({*DENSE, *measured}), HEAD_COUNTS, TOPKS, EXTRA_TOPKS), 0, None, step):
        expected = table_answers(table, shape, table.device.num_sms)
        assert module_answers(module, shape, table.device.num_sms) == expected, shape


shapes_asked = st.lists(st.tuples(st.integers(0, 300), heads, topks, extra_topks), max_size=6)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(answering(), shapes_asked, sm_counts, st.integers(1, 40), st.integers(0, 60), heads)
def test_it_answers_as_any_table_would_at_its_exceptions_and_elsewhere(
    table, asked, num_sms, max_splits, num_tokens, num_heads
):
    module = module_of(planner_source(table))
    near = [
        (count, each.num_heads, each.topk, each.extra_topk)
        for each in table.exceptions
        for count in (each.min_tokens - 1, *range(each.min_tokens, each.min_tokens + 3), each.max_tokens)
        if count >= 0
    ]
    known = [(num_tokens, each.num_heads, each.topk, each.extra_topk) for each in table.measured]
    # The nearest measured group to these is one that may hold an exception.
    beside = [(count, num_heads, topk + 1, extra) for count, _, topk, extra in near]
    for shape in (*near, *known, *beside, *asked):
        for sms in (table.device.num_sms, num_sms):
            expected = table_answers(table, shape, sms, max_splits)
            assert module_answers(module, shape, sms, max_splits) == expected, (shape, sms, max_splits)


def lint(source):
    """What ruff and its formatter have to say of a module, under FlashInfer's line length and this project's rules."""
    ruff = [sys.executable, "-m", "ruff"]
    rules = [*ruff, "check", "--quiet", "--config", str(ROOT / "pyproject.toml"), "--stdin-filename", "planner.py", "-"]
    format_ = [*ruff, "format", "--isolated", "--diff", "--quiet", "-"]
    said = [
        subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        for command in (rules, format_)
    ]
    return "".join(done.stdout + done.stderr for done in said)


@settings(
    max_examples=40,
    deadline=None,
    phases=GENERATE,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(answering())
def test_the_source_of_any_table_is_clean_and_formatted(table):
    assert lint(planner_source(table)) == ""


def test_the_modules_of_shipped_and_measured_tables_are_clean_short_and_typed(tmp_path):
    for path in TABLES:
        table = load_table(path)
        source = planner_source(table)
        assert lint(source) == "", path
        code = source[source.index("CHUNK =") :].splitlines()
        modelled = table.outside is not None and table.outside.cost_model is not None
        assert len(code) < (450 if modelled else 230) + len(table.exceptions) + len(table.measured), path
        (tmp_path / f"{path.parent.name}_{path.stem}.py".replace("-", "_")).write_text(source)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_it_needs_nothing_but_the_standard_library(tmp_path):
    """In an interpreter without site-packages, where neither this project nor anything installed is there."""
    (tmp_path / "planner.py").write_text(planner_source(load_table(QUICKSTART)))
    probe = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import planner\n"
        f"print(planner.{PREFIX}select_kernel(num_tokens=1, num_heads=64, topk=1024, num_sms=2))\n"
        "try: import cake_tune\n"
        "except ImportError: print('alone')\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["prefill", "alone"]


def test_the_signatures_are_those_of_the_public_planners():
    module = module_of(planner_source(load_table(QUICKSTART)))
    assert set(vars(module)) == {"select_kernel", "plan_head_tiles", "plan_splits", "plan_prefill"}
    for name, function in vars(module).items():
        ours = inspect.signature(getattr(planner, PREFIX + name)).parameters.values()
        theirs = inspect.signature(function).parameters.values()
        assert [(each.name, each.kind, each.default) for each in theirs] == [
            (each.name, each.kind, each.default) for each in ours
        ]


@pytest.mark.parametrize("name", ["select_kernel", "plan_head_tiles", "plan_splits", "plan_prefill"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_tokens": -1}, "num_tokens: expected at least 0, got -1"),
        ({"num_heads": 17}, r"num_heads: expected one of \(8, 16, .* got 17"),
        ({"topk": 0}, "topk: expected at least 1, got 0"),
        ({"extra_topk": -64}, "extra_topk: expected at least 0, got -64"),
        ({"num_sms": 0}, "num_sms: expected at least 1, got 0"),
    ],
)
def test_arguments_out_of_range_are_value_errors_that_name_them(name, change, message):
    module = module_of(planner_source(load_table(QUICKSTART)))
    with pytest.raises(ValueError, match=message):
        getattr(module, name)(**{"num_tokens": 1, "num_heads": 64, "topk": 512, "num_sms": 188, **change})


def test_what_cannot_run_is_refused_as_the_planners_do():
    module = module_of(planner_source(load_table(QUICKSTART)))
    with pytest.raises(ValueError, match="head_tiles: 48 heads do not have 2"):
        module.plan_splits(num_tokens=1, num_heads=48, topk=512, num_sms=188, head_tiles=2)
    with pytest.raises(ValueError, match="max_splits: 32 chunks need at least 2, got 1"):
        module.plan_splits(num_tokens=1, num_heads=48, topk=2048, num_sms=188, max_splits=1)
    with pytest.raises(ValueError, match=r"num_heads: prefill has \[16, 32, .* got 8"):
        module.plan_prefill(num_tokens=1, num_heads=8, topk=512, num_sms=188)


def test_the_module_of_the_quickstart_is_the_committed_one():
    """Read it as a reviewer would: ``tests/data/quickstart-run/planner.py``."""
    check_module(load_table(QUICKSTART), GOLDEN)


def test_a_module_that_is_another_tables_is_told_by_its_first_line_that_differs(tmp_path):
    path = tmp_path / "planner.py"
    source = planner_source(load_table(QUICKSTART))
    path.write_text(source.replace("num_tokens <= 1:", "num_tokens <= 2:"))
    number = source[: source.index("num_tokens <= 1:")].count("\n") + 1
    with pytest.raises(WrongResultError, match=rf"planner.py:{number}: expected '.*<= 1:', got '.*<= 2:'"):
        check_module(load_table(QUICKSTART), path)
    path.write_text(source + "# more\n")
    with pytest.raises(WrongResultError, match="expected the end of the file, got '# more'"):
        check_module(load_table(QUICKSTART), path)
    with pytest.raises(UsageError, match=r"absent\.py: cannot be read: No such file"):
        check_module(load_table(QUICKSTART), tmp_path / "absent.py")


def test_texts_of_a_table_cannot_break_out_of_the_docstring():
    table = load_table(QUICKSTART)
    evil = 'x"""\nimport os\\ \x00\x1b[0m {{ 7*7 }}'
    table = replace(table, device=replace(table.device, name=evil), provenance=replace(table.provenance, note=evil))
    source = planner_source(table)
    assert lint(source) == ""
    module_of(source)
    assert "x''' import os/ [0m {{ 7*7 }}" in source
