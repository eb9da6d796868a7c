"""A workload file: how often each num_tokens occurs, as a CSV file that a serving engine's log is soon turned into."""

import csv
import math
from pathlib import Path

from cake_tune.spec.fields import MAX_TOKENS
from cake_tune.spec.problems import Problem, Problems, quoted

HEADER = ["num_tokens", "weight"]
MAX_BYTES = 1 << 20


def read_weights(folder: Path, path: str) -> tuple[tuple[int, float], ...]:
    """The (num_tokens, weight) pairs of the workload file at ``path`` from ``folder``, ascending.

    Its first line is ``num_tokens,weight``; every other one has an integer >= 1, each only once, and a finite number
    >= 0, not all of them 0. Raises ``Problems`` at the spec's key ``weights``, each with the line of the file.
    """
    try:
        with (folder / path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _problem(f"cannot read {quoted(path)}: {reason}") from None
    if len(data) > MAX_BYTES:
        raise _problem(f"{path}: expected at most {MAX_BYTES >> 20} MiB")
    try:
        lines = data.decode("utf-8-sig").splitlines()
        rows = list(csv.reader(lines, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise _problem(f"{path}: expected CSV in UTF-8: {error}") from None
    if not rows or [cell.strip() for cell in rows[0]] != HEADER:
        raise _problem(f"{path}:1: expected the line {','.join(HEADER)}, got {quoted(lines[0] if lines else '')}")
    weights: dict[int, float] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        num_tokens, weight = _pair(f"{path}:{number}", row)
        if num_tokens in weights:
            raise _problem(f"{path}:{number}: num_tokens {num_tokens} has a weight already")
        weights[num_tokens] = weight
    if not any(weights.values()):
        raise _problem(f"{path}: expected a weight above 0, got none")
    return tuple(sorted(weights.items()))


def _pair(place: str, row: list[str]) -> tuple[int, float]:
    if len(row) != len(HEADER):
        raise _problem(f"{place}: expected 2 values, got {len(row)}")
    tokens, weight = (cell.strip() for cell in row)
    if not (tokens.isascii() and tokens.isdecimal() and len(tokens) < 9 and 1 <= int(tokens) <= MAX_TOKENS):
        raise _problem(f"{place}: num_tokens: expected an integer from 1 to {MAX_TOKENS}, got {quoted(tokens)}")
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise _problem(f"{place}: weight: expected a finite number >= 0, got {quoted(weight)}")
    return int(tokens), value


def _problem(message: str) -> Problems:
    return Problems([Problem(message, ("weights",))])
