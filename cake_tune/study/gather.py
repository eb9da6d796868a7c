"""Read the runs of the GPU study, and work out everything that it says."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from statistics import median

from cake_tune.errors import UndecidedError, UsageError
from cake_tune.fit.run import table_of_run
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.table import PlannerTable, load_table
from cake_tune.report.fixed import Request, resolved
from cake_tune.study.agreement import agreement
from cake_tune.study.evidence import Evidence, Points, Replays, Run, ScoredOn
from cake_tune.study.fixed import best_request
from cake_tune.study.gpus import audits_of
from cake_tune.study.origin import check_same
from cake_tune.study.overhead import overhead_of
from cake_tune.study.points import MeasuredPoint, measured_points
from cake_tune.study.replay import protocol_of, trials_of
from cake_tune.study.scored import Answer, answer_of, score_answer, without
from cake_tune.study.selectors import parse_selector
from cake_tune.study.trial import REPLAYS, score
from cake_tune.study.twins import twin_run, twins_of

POLICIES = ("race", "confirm", "argmin:1", "argmin:3", "argmin:5", "argmin:10")
REPLAY_POINTS = 200
"""Points replayed at most: a seeded draw, since every policy is repeated at each of them."""
PUBLISHED_SMS = 188


def gather(
    first: RunDirectory,
    second: RunDirectory,
    held_out: RunDirectory | None = None,
    twin_runs: Sequence[RunDirectory] = (),
    *,
    replays: int = REPLAYS,
    replay_points: int = REPLAY_POINTS,
    seed: int = 0,
) -> Evidence:
    """Everything that the runs show; without ``twin_runs``, A/A points are looked for in the first two runs.

    ``JournalError`` for what is no run, or measured another device, kernel or cache regime than ``first``;
    ``UsageError`` for one run in two places; ``UndecidedError`` when one of the runs holds no usable time.
    """
    if first.path.resolve() == second.path.resolve():
        raise UsageError(f"RUN_B: expected a sweep on another occasion than RUN_A, got the same, {second.path}")
    for other in (second, *([held_out] if held_out is not None else []), *twin_runs):
        check_same(first, other)
    a, b = read_run("A", first), read_run("B", second)
    c = None if held_out is None else read_run("C", held_out)
    table = load_table(first.table) if first.table.exists() else table_of_run(first)
    fixed = best_request(_reachable(a.points))
    answers = dict(_answers(a, table, fixed))
    fresh = {} if c is None else without(c.points, a.points)
    unseen = without(b.points, a.points)
    sets: list[tuple[str, str, Points]] = [
        ("A", "measured points", a.points),
        ("B", "points that A measured too", {at: point for at, point in b.points.items() if at not in unseen}),
        ("B", "points that A has not", unseen),
        ("C", "held-out shapes", fresh),
    ]
    found = [run for run in (twin_runs or (first, second)) if twin_run(run).journal.exists()]
    for run in found:
        check_same(first, twin_run(run))
    return Evidence(
        first=a,
        second=b,
        held_out=c,
        overlap=0 if c is None else len(c.points) - len(fresh),
        table=table,
        emitted=first.table.exists(),
        agreement=agreement(a.points, b.points),
        twins=twins_of(record for run in found for record in twin_run(run).read_all()),
        twin_runs=tuple(found),
        fixed=fixed,
        scores=tuple(_scored_on(label, name, points, answers) for label, name, points in sets if _reachable(points)),
        overheads=tuple((run.label, overhead_of(run.records)) for run in (a, b)),
        audits=tuple(each for run in (a, b) for each in audits_of(run.records)),
        replays=_replayed(a, replays, replay_points, seed),
        options=tuple(
            f"{option} {given}"
            for option, given, usual in (
                ("--replays", replays, REPLAYS),
                ("--replay-points", replay_points, REPLAY_POINTS),
                ("--seed", seed, 0),
            )
            if given != usual
        ),
    )


def read_run(label: str, directory: RunDirectory) -> Run:
    """A run with everything in it; ``UndecidedError`` without a usable time."""
    info = directory.read_info()
    records = tuple(directory.read_all())
    points = measured_points(record for record in records if record.counts)
    if not points:
        raise UndecidedError(f"{directory.journal}: expected a point with a usable time, found none; nothing to study")
    return Run(label, directory, info, records, points, tuple(directory.messages))


def published_rules() -> PlannerTable:
    """FlashInfer's rules for its largest GPU."""
    return next(
        table
        for table in shipped_tables()
        if table.provenance.kind == "published" and table.device.num_sms == PUBLISHED_SMS
    )


def _reachable(points: Points) -> list[MeasuredPoint]:
    return [each for point in points.values() if (each := point.reachable()) is not None]


def _scored_on(label: str, name: str, points: Points, answers: Mapping[str, Answer]) -> ScoredOn:
    held = _reachable(points)
    beyond = (each.best_us / points[each.shape].best_us - 1 for each in held)
    return ScoredOn(
        label,
        name,
        tuple(score_answer(each, how, held) for each, how in answers.items()),
        tuple(lost for lost in beyond if lost > 0),
    )


def _answers(run: Run, table: PlannerTable, fixed: Request) -> Iterator[tuple[str, Answer]]:
    sms = run.info.device.num_sms
    yield "table of run A", answer_of(table, sms)
    yield "rules in force before", answer_of(load_table(run.directory.in_force), sms)
    yield f"published rules of {PUBLISHED_SMS} SMs", answer_of(published_rules(), sms)
    yield f"best fixed plan ({fixed})", lambda point: resolved(fixed, point.shape, point.kernel_alone)


def _replayed(run: Run, replays: int, most: int, seed: int) -> Replays | None:
    trials = trials_of((record for record in run.records if record.counts), protocol_of(run.info))
    drawn = Random(f"{seed} replay points").sample(trials, most) if len(trials) > most else trials
    if not drawn or not replays:
        return None
    return Replays(
        points=len(drawn),
        of=len(trials),
        repetitions=replays,
        means=all(trial.means for trial in drawn),
        rounds=median(trial.rounds or 0 for trial in drawn),
        scores=tuple(score(map(parse_selector, POLICIES), drawn, replays=replays, seed=seed)),
    )
