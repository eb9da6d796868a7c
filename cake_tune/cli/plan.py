"""``cake-tune plan``: what the planner answers for a shape, and why."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cake_tune.errors import UsageError

if TYPE_CHECKING:
    from cake_tune.planner.lookup import Decision


def plan(
    num_tokens: Annotated[list[int], typer.Option("--num-tokens", "-T", help="Tokens; repeat it to compare.")],
    num_heads: Annotated[int, typer.Option("--num-heads", "-H", help="Query heads.")],
    topk: Annotated[int, typer.Option("--topk", "-k", help="Candidates per token in the main cache.")],
    extra_topk: Annotated[int, typer.Option("--extra-topk", help="Candidates per token in the extra cache.")] = 0,
    num_sms: Annotated[int | None, typer.Option("--num-sms", help="Multiprocessors of the GPU planned for.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Plan for this machine's CPU instead of a GPU.")] = False,
    table: Annotated[
        Path | None, typer.Option("--table", help="Planner table to ask. [default: the one in force]")
    ] = None,
    backend: Annotated[
        Literal["cake_tune", "flashinfer"],
        typer.Option("--backend", "-b", help="Whose kernels run the plan; each has its own tables."),
    ] = "cake_tune",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show the plan for a shape, and why: measured, by rule, or extrapolated, and from which table."""
    from cake_tune.host import cpu_device
    from cake_tune.planner.environment import environment_table
    from cake_tune.planner.lookup import decide
    from cake_tune.planner.registry import table_for, use_table
    from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
    from cake_tune.planner.shape import CHUNK, MAX_CHUNKS_PER_BLOCK, num_chunks, scratch_bytes

    if cpu and num_sms is not None:
        raise UsageError("--num-sms: expected without --cpu, whose workers are counted here")
    use_table(table)
    answers, _ = table_for(cpu_device() if cpu else None, num_sms, backend)
    sms = cpu_device().num_sms if cpu else num_sms
    if table is None and not cpu and num_sms is None and environment_table() is None:
        typer.echo(f"no device and no table given: the answers are those of {answers.label}", err=True)
    if num_chunks(topk, extra_topk) > MAX_CHUNKS_PER_BLOCK * DEFAULT_MAX_SPLITS:
        most = CHUNK * MAX_CHUNKS_PER_BLOCK * DEFAULT_MAX_SPLITS
        raise UsageError(f"--topk: expected at most {most} candidates with those of the extra cache, got {topk}")
    for tokens in num_tokens:
        decision = decide(
            answers, num_tokens=tokens, num_heads=num_heads, topk=topk, extra_topk=extra_topk, num_sms=sms
        )
        scratch = scratch_bytes(tokens, num_heads, topk, extra_topk) if decision.plan.num_splits > 1 else 0
        if as_json:
            typer.echo(json.dumps({"num_tokens": tokens, **_fields(decision), "scratch_bytes": scratch}))
        else:
            typer.echo(
                f"T={tokens} H={num_heads} topk={topk}{f'+{extra_topk}' if extra_topk else ''}: {_text(decision)}"
            )
            typer.echo(f"  {decision.source}: {decision.why}")
            if scratch:
                typer.echo(f"  scratch: at most {scratch:,} bytes")


def _fields(decision: "Decision") -> dict[str, Any]:
    return {
        "plan": asdict(decision.plan),
        "source": decision.source,
        "why": decision.why,
        "table": decision.table.label,
    }


def _text(decision: "Decision") -> str:
    plan = decision.plan
    tiles = f"{plan.head_tiles} head tile{'s' if plan.head_tiles > 1 else ''}"
    if plan.kernel == "prefill":
        return f"prefill, {tiles}"
    splits = "unsplit" if plan.num_splits == 1 else f"{plan.num_splits} splits"
    chunks = f"{plan.chunks_per_block} chunk{'s' if plan.chunks_per_block > 1 else ''}"
    return f"decode, {tiles}, {splits}, {chunks} per block"
