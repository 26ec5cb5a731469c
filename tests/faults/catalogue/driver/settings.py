"""One setting in force is another on one path, behind the definition: in engine, JVM, client or our code."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import effective_settings
from cutover.lake import batch_runs
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.records import classify
from cutover.records.parsing import limits, parser
from cutover.records.reading import scan
from cutover.settings import Settings
from cutover.streaming.source import query
from cutover.streaming.source.query import QuerySource
from tests.faults.fault import ALWAYS, Fault, settle
from tests.faults.running.rig import Rig
from tests.faults.running.task import Role

RECORDS = 60
WITHOUT_PATHS = tuple(name for name in ALWAYS if name != "N5")  # it needs a seal that holds


def defaults_file(rig: Rig, line: str) -> Mapping[str, str]:
    """Return the environment of a Spark that takes a conf from a file of defaults."""
    folder = rig.settings.home / "spark-conf"
    folder.mkdir(exist_ok=True)
    (folder / "spark-defaults.conf").write_text(line + "\n")
    return {"SPARK_CONF_DIR": str(folder)}


def in_environment(values: Mapping[str, str]) -> None:
    os.environ.update(values)


def conf(key: str, value: str) -> None:
    effective_settings.PINNED[key] = value


def read_uncommitted() -> None:
    """Configure the clients of both kinds of read without isolation of transactions."""
    source_options, isolation = query.source_options, scan.ISOLATION

    def otherwise(settings: Settings, reading: QuerySource) -> dict[str, str]:
        return {**source_options(settings, reading), isolation: "read_uncommitted"}

    query.source_options = otherwise
    scan.ISOLATION = "kafka.client.rack"  # so that the batch read's option is another one


def farther_ahead() -> None:
    def later(pipeline: Pipeline, event: str) -> str:
        return f"({event} > unix_micros(_log_time) + {7 * pipeline.lateness.max_ahead_micros}L)"

    classify.future_sql = later


def single_quotes() -> None:
    parser.JSON_OPTIONS["allowSingleQuotes"] = "true"


def shorter_numbers() -> None:
    limits.MAX_NUMBER = 999
    parser.JSON_OPTIONS["maxNumLen"] = "999"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Change made in a child before it starts, and the item that has to be named."""

    name: str
    prepare: Callable[[Rig], Callable[[], None]]
    item: str
    values: tuple[str, str]


def _of(act: Callable[[], None]) -> Callable[[Rig], Callable[[], None]]:
    return lambda _: act


def _environment(**values: str) -> Callable[[Rig], Callable[[], None]]:
    return lambda _: partial(in_environment, values)


def _defaults(line: str) -> Callable[[Rig], Callable[[], None]]:
    return lambda rig: partial(in_environment, defaults_file(rig, line))


ZONE, ANSI, PARTIAL = "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.json.enablePartialResults"

DRIFTS = (
    Drift(
        name="isolation", prepare=_of(read_uncommitted), item="Isolation", values=("read_committed", "read_uncommitted")
    ),
    Drift(name="zone", prepare=_of(partial(conf, ZONE, "Europe/Berlin")), item=ZONE, values=("UTC", "Europe/Berlin")),
    Drift(name="ansi", prepare=_of(partial(conf, ANSI, "false")), item=ANSI, values=("true", "false")),
    Drift(name="defaults-file", prepare=_defaults(f"{PARTIAL} false"), item=PARTIAL, values=("not set", "false")),
    Drift(
        name="locale",
        prepare=_environment(_JAVA_OPTIONS="-Duser.language=tr -Duser.country=TR"),
        item="jvm `locale`",
        values=("en_US", "tr_TR"),
    ),
    Drift(name="json", prepare=_of(single_quotes), item="json allowSingleQuotes", values=("false", "true")),
    Drift(name="parser", prepare=_of(shorter_numbers), item="json maxNumLen", values=("1000", "999")),
    Drift(name="max-ahead", prepare=_of(farther_ahead), item="max_ahead", values=("3600000000L", "25200000000L")),
)


def drift_apart(rig: Rig, *, drift: Drift, side: Role) -> None:
    """Let both paths run, one of them in a process in which the setting is another; compare."""
    rig.send(rig.draw(RECORDS))
    change = drift.prepare(rig)
    if side == "batch":
        rig.drain()
        _await(rig, side, change)
    else:
        _await(rig, side, change)
        rig.batch()
    report = rig.reconcile()
    rig.exit_code = report.finding.exit_code
    rig.said = "\n".join(breach.message for breach in report.finding.seal.breaches)
    rig.note("said", rig.said[:600])


def _await(rig: Rig, side: Role, change: Callable[[], None]) -> None:
    child = rig.start(role=side, until="drain", prepare=change)
    code = child.wait(900)
    assert code == 0, child.tail()


def dumps_differ(rig: Rig) -> bool:
    """Both processes recorded different settings."""
    record = EpochLog(rig.version.uri).records()[-1]
    run = batch_runs.read_effective_runs(rig.lake)[-1]
    stream = EpochLog(rig.version.uri).in_force(record.in_force)
    batch = batch_runs.find_effective_settings(batch_runs.read_effective_runs(rig.lake), run)
    assert stream is not None
    assert batch is not None
    shared = stream.families.keys() & batch.families.keys()
    apart = any(stream.families[name] != batch.families[name] for name in shared)
    return apart or record.isolation != run.isolation


def _check_item_is_named(rig: Rig, drift: Drift) -> Iterator[str]:
    report: Report = rig.reconciliations[0]
    if report.finding.verdict is not Verdict.NOT_COMPARABLE:
        yield f"expected NOT_COMPARABLE, got {report.finding.verdict}"
    if any(cause.rows for cause in report.finding.causes.values()) or report.finding.rows.compared:
        yield "differences were counted"
    messages = [breach.message for breach in report.finding.seal.breaches if drift.item in breach.message]
    if not any(all(value in text for value in drift.values) for text in messages):
        yield f"expected {drift.item} with {drift.values}, got {rig.said}"


def _fault(drift: Drift, side: Role) -> Fault:
    def item_and_both_values_are_named(rig: Rig) -> Iterator[str]:
        """The first comparison says which item, with which values, and counts nothing."""
        yield from _check_item_is_named(rig, drift)

    mends = side == "batch"  # its next run, under the right settings, starts from scratch
    return Fault(
        id="F35",
        variant=f"{drift.name}-{side}",
        family="settings",
        title=f"{drift.name} differs in the process of the {'batch run' if mends else 'driver'}",
        inject=partial(drift_apart, drift=drift, side=side),
        happened=dumps_differ,
        settle=settle if mends else _compute_again,
        verdicts=frozenset({Verdict.CONSISTENT, Verdict.EXPLAINED} if mends else {Verdict.NOT_COMPARABLE}),
        checks=ALWAYS if mends else WITHOUT_PATHS,
        holds=(item_and_both_values_are_named,),
        alert="SealBroken",
        stays=not mends,
        exit_code=2,
    )


def _compute_again(rig: Rig) -> None:
    rig.batch()
    rig.reconcile()


SIDES: tuple[Role, ...] = ("stream", "batch")
FAULTS = tuple(_fault(drift, side) for drift in DRIFTS for side in SIDES)
