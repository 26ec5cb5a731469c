"""The same log in 1, 7 and 50 epochs, with sums that cancel and ties of every kind: the same rows to the last bit."""

import json
import math
import random
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cutover.batch import recompute
from cutover.definition import (
    ApproxDistinct,
    Avg,
    Count,
    First,
    Last,
    Lateness,
    Max,
    Min,
    Pipeline,
    Quantile,
    Stddev,
    Sum,
    Topic,
    TopK,
    Variance,
)
from cutover.definition.measures.kinds import Bag, Measure
from cutover.engine import queries
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.streaming import driver
from tests.faults.fault import Fault
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import reconcile
from tests.integration.streaming import rig as small
from tests.integration.streaming.rig import Event
from tests.support.comparison import twice
from tests.support.log.logs import WINDOWS

EPOCHS = (1, 7, 50)
RECORDS = 400
PARTITIONS = 2
PLACES = 12
"""Event times of a drawn log; so few that most records share one with others."""

PLAIN: Mapping[str, Measure] = {"n": Count(), "sum": Sum("x"), "mean": Avg("x"), "spread": Stddev("x")}
FURTHER: Mapping[str, Measure] = {
    "variance": Variance("x"),
    "low": Min("x"),
    "high": Max("x"),
    "first": First("x"),
    "last": Last("x"),
    "top": TopK("j", k=2),
    "median": Quantile("x", 0.5),
    "distinct": ApproxDistinct("j"),
    "bag": Bag("j"),
    "product": Sum("x * j"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A definition and its log."""

    pipeline: Pipeline
    events: tuple[Event, ...]
    values: Mapping[tuple[float, str | None], tuple[float, ...]]  # by event time and key, in the log's order


def draw_case(topic: str, kind: str, rng: random.Random) -> Drawn:
    """Draw a definition with a window of one kind, and a log for it; nothing in it can be late."""
    some = rng.sample(sorted(FURTHER), k=4)
    pipeline = Pipeline(
        name="drawn",
        source=Topic(
            name=topic,
            schema="at timestamp NOT NULL, k string, j int, x double",
            event_time="at",
            time_format="millis",
        ),
        where=rng.choice([None, "j <> 3"]),
        key=rng.choice([("k",), ("k", "j")]),
        window=rng.choice(WINDOWS[kind]),
        measures={**PLAIN, **{name: FURTHER[name] for name in some}},
        lateness=Lateness(out_of_orderness="0 seconds", allowed="30 days", max_ahead="30 days"),
    )
    places = [rng.choice([rng.uniform(0, 300), 10.0 * rng.randrange(30)]) for _ in range(PLACES)]
    events, values = [], defaultdict[tuple[float, str | None], list[float]](list)
    for number in range(RECORDS):
        minute, key, x = rng.choice(places), rng.choice(["a", "b", None]), _double(rng)
        fields = {"at": Event(id=0, minute=minute).micros // 1000, "k": key, "j": rng.randrange(5), "x": x}
        events.append(
            Event(id=number, logged=300.0, partition=rng.randrange(PARTITIONS), raw=json.dumps(fields).encode())
        )
        values[minute, key].append(x)
    return Drawn(pipeline=pipeline, events=tuple(events), values={at: tuple(value) for at, value in values.items()})


def _double(rng: random.Random) -> float:
    """Return a payment or its reversal, of any magnitude; now and then what no sum has room for."""
    usual = rng.choice([0.1, 0.2, 0.3, 1e16, 12_345.678, 5e-324, -0.0, 10 ** rng.uniform(-9, 20)])
    signed = usual * rng.choice([1, -1])
    return rng.choice([1e308, math.inf, math.nan]) if rng.random() < 0.02 else signed


def naive(values: tuple[float, ...], epochs: int) -> float:
    """Return the sum of doubles as engines add it: partial sums of `epochs` epochs, added."""
    finite = [value for value in values if math.isfinite(value)]
    size = math.ceil(len(finite) / epochs) or 1
    return sum((sum(finite[at : at + size]) for at in range(0, len(finite), size)), 0.0)


def bits(value: Any) -> Any:
    """Return a value as what it is stored as: doubles that only print alike differ."""
    if isinstance(value, float):
        return struct.pack("<d", value).hex()
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return str(value)


def rows_of(lake: PipelineLake) -> tuple[list[str], list[str]]:
    """Return the rows of the stream and of batch, in one order."""
    connection, log = queries.open_duckdb(), small.epoch_log(lake)
    newest = log.newest()
    assert newest is not None
    log.relation(connection, "found", epoch=newest.epoch)
    delta.relation(connection, "batch", lake.batch_uri())
    names = ["window_start", "window_end", *lake.pipeline.key, *lake.pipeline.measures]

    def rows(query: str) -> list[str]:
        result_rows = queries.query_table(connection, query).to_pylist()
        return sorted(json.dumps([bits(row[name]) for name in names]) for row in result_rows)

    return rows(finish_sql(lake.pipeline, "found", keep=[Class.ACCEPTED])), rows("SELECT * FROM batch")


def split(rig: Rig, *, kind: str, definitions: int) -> None:
    """Draw definitions and logs; drain each log in 1, 7 and 50 epochs, recompute, compare twice."""
    rig.send(rig.draw(40))
    wrong, verdicts, apart, epochs = list[str](), set[str](), 0, set[int]()
    for turn in range(definitions):
        topic = f"{rig.topic}-{turn}"
        case = draw_case(topic, kind, random.Random(f"{rig.seed}/{turn}"))  # noqa: S311 -- no secret
        small.make_topic(rig.settings, topic, PARTITIONS)
        small.send(rig.settings, topic, case.events)
        apart += any(len({bits(naive(values, n)) for n in EPOCHS}) > 1 for values in case.values.values())
        outcomes = []
        for number in EPOCHS:
            settings = rig.settings.model_copy(update={"home": rig.settings.home / f"{turn}-{number}", "lake": None})
            pipeline = replace(case.pipeline, max_rows_per_epoch=math.ceil(RECORDS / number))
            lake = PipelineLake(settings, pipeline)
            outcomes.append(_outcome(lake))
            epochs.add(len([record for record in small.records(lake) if not record.tick]))
        wrong += [f"definition {turn}: {text}" for text in _differ(outcomes)]
        verdicts |= {outcome.verdict for outcome in outcomes}
    rig.note("definitions", definitions)
    rig.note("definitions whose raw sums differ", apart)
    rig.note("epochs", sorted(epochs))
    rig.note("verdicts", sorted(verdicts))
    rig.note("wrong", wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of one way to split a log."""

    verdict: str
    classes: Mapping[str, int]
    stream: list[str]
    batch: list[str]


def _outcome(lake: PipelineLake) -> Outcome:
    lake.settings.home.mkdir(parents=True)
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    with twice.comparisons():
        report = reconcile(lake)
    stream, batch = rows_of(lake)
    classes = {cls.value: sum(r.counts.get(cls.value, 0) for r in small.records(lake)) for cls in Class}
    return Outcome(verdict=report.finding.verdict.value, classes=classes, stream=stream, batch=batch)


def _differ(outcomes: list[Outcome]) -> Iterator[str]:
    first_outcome = outcomes[0]
    if not first_outcome.stream or not first_outcome.classes[Class.ACCEPTED.value]:
        yield "nothing was counted"
    for number, outcome in zip(EPOCHS, outcomes, strict=True):
        if outcome.verdict != Verdict.CONSISTENT.value:
            yield f"{outcome.verdict} in {number} epochs"
        if outcome.classes != first_outcome.classes:
            yield f"expected {first_outcome.classes}, got {outcome.classes} in {number} epochs"
        if not outcome.stream == outcome.batch == first_outcome.stream:
            differing = {*outcome.stream, *outcome.batch} ^ {*first_outcome.stream}
            yield f"other rows in {number} epochs: {sorted(differing)[:2]}"


def raw_sums_and_epochs_differ(rig: Rig) -> bool:
    """Sums of plain doubles depend on the split, and the splits were other ones."""
    evidence = rig.evidence
    return evidence["definitions whose raw sums differ"] == evidence["definitions"] and len(evidence["epochs"]) >= len(
        EPOCHS
    )


def every_split_is_the_same_to_the_last_bit(rig: Rig) -> Iterator[str]:
    """One verdict, one count of each class, one set of rows on both paths; each comparison twice to the byte."""
    yield from rig.evidence["wrong"]


def _fault(kind: str, definitions: int) -> Fault:
    return Fault(
        id="F38",
        variant=kind,
        family="driver",
        title=f"cancelling sums and ties, {kind} windows: {definitions} random definitions in 1, 7 and 50 epochs",
        inject=partial(split, kind=kind, definitions=definitions),
        happened=raw_sums_and_epochs_differ,
        holds=(every_split_is_the_same_to_the_last_bit,),
        timeout_seconds=3600,
    )


FAULTS = tuple(_fault(kind, 6) for kind in WINDOWS)
