"""What a table's numbers rest on, as the lines of a docstring."""

import textwrap
from collections.abc import Iterator

from cake_tune.export.conditions import WIDTH
from cake_tune.planner.table import Certificate, KernelIdentity, PlannerTable, Regret

LABEL_WIDTH = 12


def evidence_lines(table: PlannerTable) -> list[str]:
    """Device, kernel, sweep, timer and certificate of ``table``, one labelled entry after another, wrapped."""
    lines = []
    for label, text in _entries(table):
        first = f"    {label:<{LABEL_WIDTH}} "
        lines += textwrap.wrap(
            _plain(text), WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
        )
    return lines


def _entries(table: PlannerTable) -> Iterator[tuple[str, str]]:
    device, kernel, origin = table.device, table.kernel, table.provenance
    unit = "SMs" if device.is_gpu else "workers"
    l2 = f", L2 {device.l2_bytes / 2**20:.0f} MiB" if device.l2_bytes else ""
    yield "device", f"{device.name} ({device.arch}, {device.num_sms} {unit}{l2})"
    built = "".join(
        f", {what} {name}" for what, name in (("compiler", kernel.compiler), ("driver", kernel.driver)) if name
    )
    yield "kernel", f"{kernel.family}, identity {kernel.identity}{built}"
    yield origin.kind, ", ".join(filter(None, (origin.source, origin.sweep and f"sweep {origin.sweep}", origin.date)))
    if origin.timer:
        yield "timer", f"{origin.timer}; times within {100 * origin.tie_band:.2f} % of each other are ties"
    points = sum(len({*region.decode, *region.prefill}) for region in table.measured)
    if points:
        yield "shapes", f"{points}: {len(table.measured)} (num_heads, topk, extra_topk) at {_tokens(table)} tokens"
    yield "top-ks", f"crossover calibrated at {', '.join(map(str, table.calibrated_topks))}"
    if table.certificate is not None:
        yield from _regrets(table.certificate)
    if table.outside is not None:
        outside = table.outside
        yield (
            "elsewhere",
            outside.why,
        )
    if table.exceptions:
        yield "exceptions", f"{len(table.exceptions)} intervals of num_tokens, for num_sms {device.num_sms} only"
    if origin.note:
        yield "note", origin.note
    if origin.tool_version:
        yield "tool", f"cake-tune {origin.tool_version}"


def _built(kernel: KernelIdentity) -> tuple[tuple[str, str], ...]:
    return ("compiler", kernel.compiler), ("driver", kernel.driver)


def _regrets(certificate: Certificate) -> Iterator[tuple[str, str]]:
    yield "regret", _regret(certificate)
    if certificate.held_out is not None:
        yield "held out", _regret(certificate.held_out)


def _regret(regret: Regret) -> str:
    """How much slower than the best measured plan the planner's choices are."""
    return (
        f"mean {100 * regret.mean:.2f} %, p95 {100 * regret.p95:.2f} %, worst {100 * regret.worst:.2f} % "
        f"over {regret.points} shapes"
    )


def _tokens(table: PlannerTable) -> str:
    tokens = [count for region in table.measured for count in (*region.decode, *region.prefill)]
    return f"{min(tokens)} to {max(tokens)}"


def _plain(text: str) -> str:
    """The text on one line, without what would end a docstring or need an escape in it."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(shown.replace('"', "'").replace("\\", "/").split())
