"""The sweep: the points that a schedule asks for and the journal does not hold yet, on one device or several."""

from collections.abc import Callable
from dataclasses import replace

from cake_tune.backends import check_options, get_backend
from cake_tune.errors import SpecError
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.record import Status
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.backend import backend_of_sweep
from cake_tune.planner.registry import table_for
from cake_tune.planner.table import PlannerTable, save_table
from cake_tune.spec import Spec, parse_spec
from cake_tune.sweep.audits import Audits
from cake_tune.sweep.host_facts import with_earlier_gpus
from cake_tune.sweep.keys import Keys
from cake_tune.sweep.progress import DECIDED, Progress, Silent, SweepSummary
from cake_tune.sweep.provenance import earlier_info, earlier_table, run_info
from cake_tune.sweep.schedule import Drawn, Exhaustive, Records, Schedule
from cake_tune.sweep.slots import Slot, slots_for
from cake_tune.sweep.words import counted
from cake_tune.sweep.work import Setting, Work

ScheduleFor = Callable[[Spec, RunInfo, PlannerTable], Schedule]
"""What makes a schedule, once the provenance of the run and the table in force are known."""


def run_sweep(
    spec: Spec,
    run: RunDirectory,
    *,
    schedule: Schedule | None = None,
    schedule_for: ScheduleFor | None = None,
    slots: tuple[Slot, ...] | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> SweepSummary:
    """Measure the points of ``spec`` into ``run`` and return where the sweep stands.

    ``schedule`` says which points, and which after those; if left out, what ``schedule_for`` makes of the spec, the
    run's provenance and the table in force, else all that the spec lists. ``slots`` says where: if left out, on the
    first visible GPU, or the backend's only device. Points that the journal holds under the same key are not
    measured again; with ``retry_failed``, those without a best plan are. A journal holds the rows of one spec,
    protocol, kernel and device: if it has others or damaged lines, or with ``fresh``, it is set aside under another
    name, and a new one starts with the rows that still count (with ``fresh``, none). All rows of a journal are judged
    against one table: the one in force when its first row was measured. With two slots or more, some points are
    measured on two of them, as an audit. A sweep with nothing left to do changes no file, unless the journal is
    damaged, or the files that describe the run are missing or of another run.

    Raises ``InterruptedSweep`` after Ctrl-C or SIGTERM (the first lets the points at hand finish), with every finished
    point in the journal; ``JournalError`` if another sweep is writing it; ``DeviceUnfitError`` if the backend cannot
    start; ``UsageError`` for an unknown backend, or build options that it does not take. What happens to single plans
    and points is in their rows.
    """

    def choose(info: RunInfo, table: PlannerTable) -> Schedule:
        return schedule or (schedule_for(spec, info, table) if schedule_for else Exhaustive(spec))

    return _run(spec, run, choose, slots, fresh=fresh, retry_failed=retry_failed, progress=progress)


def run_twins(
    spec: Spec,
    run: RunDirectory,
    count: int,
    *,
    slots: tuple[Slot, ...] | None = None,
    progress: Progress | None = None,
) -> SweepSummary:
    """Measure ``count`` A/A points of ``spec`` into ``run.twins``: the plan in force under two labels.

    The points are drawn by the spec's seed. They are judged by the tie band of ``run`` where that is of the same
    origin. Points, resume and errors as in ``run_sweep``; ``UsageError`` if the spec has fewer points.
    """
    drawn = Drawn(spec, count)
    return _run(spec, run.twins, lambda info, table: drawn, slots, progress=progress, twins_of=run)


def _run(
    spec: Spec,
    run: RunDirectory,
    choose: Callable[[RunInfo, PlannerTable], Schedule],
    slots: tuple[Slot, ...] | None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    progress: Progress | None,
    twins_of: RunDirectory | None = None,
) -> SweepSummary:
    told = progress if progress is not None else Silent()
    backend = get_backend(spec.backend)
    check_options(backend, (plan for point in spec.points() for plan in point.plans))
    slots = slots or slots_for(backend)
    info = run_info(spec, backend, slots)
    keys = Keys(spec, info, twins=twins_of is not None)
    with Journal(run.journal) as journal:
        for text in journal.messages:
            told.message(text)
        audits = Audits(spec.seed, on=len(slots) > 1 and twins_of is None)
        done = _settle(journal, keys, audits, fresh, told)
        if retry_failed:
            done = {key: status for key, status in done.items() if status in DECIDED}
        earlier = None if fresh else earlier_info(run, info)
        known_table = earlier_table(run, told.message) if done else None
        table = known_table or table_for(info.device, backend=backend_of_sweep(spec.backend))[0]
        main = earlier_info(twins_of, info) if twins_of is not None else None
        source = main if main is not None and main.tie_band is not None else earlier
        host = with_earlier_gpus(info.host, earlier.host if earlier is not None else {})
        info = replace(info, in_force=table.label, tie_band=source.tie_band if source else None, host=host)

        def describe(info: RunInfo) -> None:
            run.write_info(info)
            save_table(table, run.in_force)

        same = earlier is not None and earlier.weights == info.weights and _lists_the_same(earlier, spec)
        if known_table is None or not same:
            describe(info)
        setting = Setting(
            spec,
            choose(info, table),
            keys,
            slots,
            table,
            journal,
            done,
            Records(lambda: (record for record in read_journal(run.journal) if record.key in done)),
            audits,
            told,
            describe,
            twins=twins_of is not None,
        )
        return Work(setting, info).run()


def _lists_the_same(earlier: RunInfo, spec: Spec) -> bool:
    """Whether ``spec`` lists the points of the one in ``earlier``, of which it may differ in comments and the like."""
    if earlier.spec_text == spec.text:
        return True
    try:
        return parse_spec(earlier.spec_text, earlier.spec_path, workload=False).points() == spec.points()
    except SpecError:
        return False


def _settle(journal: Journal, keys: Keys, audits: Audits, fresh: bool, told: Progress) -> dict[str, Status]:
    """Set damage aside, and rows that are not the sweep's own (all if ``fresh``); statuses of what stays, by key."""
    kept: set[str] = set()
    done: dict[str, Status] = {}
    known = 0
    for record in read_journal(journal.path):
        known += 1
        if fresh or not keys.own(record):
            continue
        kept.add(record.key)
        audits.see(record)
        if not record.audits:
            done[record.key] = record.status
    if len(kept) < known:
        aside = journal.archive(keep=kept)
        why = "as asked" if fresh else "they are of another spec, protocol, kernel or device"
        told.message(f"{counted(known - len(kept), 'earlier row')} set aside in {aside}: {why}")
    elif journal.damaged:
        try:
            aside = journal.archive(keep=kept)
            told.message(f"the damaged journal is kept as {aside}; this one goes on with what is intact")
        except OSError as error:
            told.message(f"the damage cannot be set aside, and stays in the journal: {error}")
    return done
