"""``cake-tune plan``: what the planner answers for a shape, and why."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cake_tune.cli.arguments import chosen, listed_integers
from cake_tune.cli.asked import DeviceOption, SmsOption, TableOption, asked_table
from cake_tune.errors import UsageError

if TYPE_CHECKING:
    from cake_tune.planner.backend import Backend
    from cake_tune.planner.lookup import Decision
    from cake_tune.planner.table import PlannerTable

NOTHING = "nothing to run: without tokens the op launches nothing and needs no scratch"


def plan(
    num_tokens: Annotated[
        list[str], typer.Option("--num-tokens", "-T", metavar="T,...", help="Tokens; several to compare: 1,2,4.")
    ],
    num_heads: Annotated[int, typer.Option("--num-heads", "-H", help="Query heads.")],
    topk: Annotated[int, typer.Option("--topk", "-k", help="Candidates per token in the main cache.")],
    extra_topk: Annotated[int, typer.Option("--extra-topk", help="Candidates per token in the extra cache.")] = 0,
    num_sms: SmsOption = None,
    device: DeviceOption = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Plan for this machine's CPU instead of a GPU.")] = False,
    table: TableOption = None,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            "-b",
            metavar="cake_tune|flashinfer",
            help="Whose kernels run the plan; each has its own tables.",
        ),
    ] = "cake_tune",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show the plan for a shape, and why: measured, by rule, or extrapolated, and from which table."""
    from cake_tune.planner.environment import environment_table
    from cake_tune.planner.lookup import decide
    from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
    from cake_tune.planner.shape import CHUNK, MAX_CHUNKS_PER_BLOCK, num_chunks, scratch_bytes

    if cpu and (num_sms is not None or device is not None):
        option = "--device" if num_sms is None else "--num-sms"
        raise UsageError(f"{option}: expected without --cpu, which plans for this machine's CPU")
    kernels, listed = _kernels(backend), listed_integers("--num-tokens", num_tokens)
    answers, sms = _of_cpu(table, kernels) if cpu else asked_table(table, device, num_sms, kernels)
    if num_chunks(topk, extra_topk) > MAX_CHUNKS_PER_BLOCK * DEFAULT_MAX_SPLITS:
        most = CHUNK * MAX_CHUNKS_PER_BLOCK * DEFAULT_MAX_SPLITS
        raise UsageError(f"--topk: expected at most {most} candidates with those of the extra cache, got {topk}")
    # All of them before the first line, so that a question that cannot be answered prints no half of an answer.
    decisions = [
        decide(answers, num_tokens=tokens, num_heads=num_heads, topk=topk, extra_topk=extra_topk, num_sms=sms)
        for tokens in listed
    ]
    if table is None and not cpu and device is None and num_sms is None and environment_table() is None:
        typer.echo(f"no device and no table given: the answers are those of {answers.label}", err=True)
    for tokens, decision in zip(listed, decisions, strict=True):
        scratch = scratch_bytes(tokens, num_heads, topk, extra_topk) if tokens and decision.plan.num_splits > 1 else 0
        if as_json:
            fields = _fields(decision, kernels) if tokens else _nothing(decision)
            typer.echo(json.dumps({"num_tokens": tokens, **fields, "scratch_bytes": scratch}))
            continue
        shape = f"T={tokens} H={num_heads} topk={topk}{f'+{extra_topk}' if extra_topk else ''}"
        typer.echo(f"{shape}: {_text(decision) if tokens else NOTHING}")
        if tokens:
            typer.echo(f"  {decision.source}: {_why(decision, kernels)}")
        if scratch:
            typer.echo(f"  scratch: at most {scratch:,} bytes")


def _of_cpu(table: Path | None, backend: "Backend") -> "tuple[PlannerTable, int]":
    from cake_tune.host import cpu_device
    from cake_tune.planner.registry import table_for, use_table

    with use_table(table):
        return table_for(cpu_device(), None, backend)[0], cpu_device().num_sms


def _kernels(backend: str) -> "Backend":
    from cake_tune.planner.backend import BACKENDS, backend_of_sweep

    measured = backend_of_sweep(backend)
    hint = f" (did you mean {measured}? Its kernels are what a sweep on {backend} measures)" if measured else ""
    return chosen("--backend", backend, BACKENDS, hint)


def _why(decision: "Decision", backend: "Backend") -> str:
    """The decision's own grounds, and whose kernels published rules were made for: they answer for either backend."""
    if decision.table.provenance.kind != "published":
        return decision.why
    timed = "" if backend == "flashinfer" else ": no sweep has timed this project's kernels there"
    return f"{decision.why}; FlashInfer publishes these rules for its own kernels{timed}"


def _fields(decision: "Decision", backend: "Backend") -> dict[str, Any]:
    return {
        "plan": asdict(decision.plan),
        "source": decision.source,
        "why": _why(decision, backend),
        "table": decision.table.label,
    }


def _nothing(decision: "Decision") -> dict[str, Any]:
    return {"plan": None, "source": None, "why": NOTHING, "table": decision.table.label}


def _text(decision: "Decision") -> str:
    plan = decision.plan
    tiles = f"{plan.head_tiles} head tile{'s' if plan.head_tiles > 1 else ''}"
    if plan.kernel == "prefill":
        return f"prefill, {tiles}"
    splits = "unsplit" if plan.num_splits == 1 else f"{plan.num_splits} splits"
    chunks = f"{plan.chunks_per_block} chunk{'s' if plan.chunks_per_block > 1 else ''}"
    return f"decode, {tiles}, {splits}, {chunks} per block"
