"""Lateness of a real log's records compared with plain Python: by log timestamps, and by the driver's ledger."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.errors import LakeError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import journal_rows
from cutover.reconcile.advisor.gather import gather_delays
from cutover.reconcile.advisor.log_lateness import measure_log_lateness
from cutover.reconcile.advisor.predict import predict
from cutover.reconcile.result.measurements import LateSource
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import MINUTE, Event
from tests.support.log.real_speed import quantile, simulate

OUT_OF_ORDERNESS = 5 * MINUTE


def draw_events(count: int, *, seed: int) -> list[Event]:
    """Return records that reach the log minutes after their event time; some are filtered."""
    draw = random.Random(seed)  # noqa: S311 -- no secret
    late = [draw.choice((0, 0, 0, 0, 1, 6, 20, 50)) for _ in range(count)]
    keys = [draw.choice(("a", "b", "drop", None)) for _ in range(count)]
    return [
        Event(id=i, minute=max(0, i * 0.5 - by), logged=i * 0.5, key=key, partition=i % 2)
        for i, (by, key) in enumerate(zip(late, keys, strict=True))
    ]


def compute_expected_lateness(events: list[Event], wait: int = OUT_OF_ORDERNESS) -> tuple[list[int], int]:
    """Return how far each record that counts was behind, and how many are late at real speed under a wait."""
    records = [(event.partition, int((event.logged or 0) * MINUTE), event.micros) for event in events]
    marks = simulate(records, MINUTE)
    counted_events = [(at, event) for at, event in zip(marks, events, strict=True) if event.key != "drop"]
    ends = [event.micros // (10 * MINUTE) * 10 * MINUTE + 10 * MINUTE for _, event in counted_events]
    late = sum(at - wait >= end for (at, _), end in zip(counted_events, ends, strict=True))
    return [max(0, at - event.micros) for at, event in counted_events], late


def test_lateness_is_that_of_a_plain_simulation_and_of_the_ledger(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=40)
    events = draw_events(500, seed=5)
    rig.send(settings, topic, events)
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    log_lateness = measure_log_lateness(lake, SystemClock())

    delays, late = compute_expected_lateness(events)
    lateness = log_lateness.lateness
    assert lateness is not None
    seconds = [lateness.p50, lateness.p90, lateness.p99, lateness.largest]
    expected_quantiles = [*(quantile(delays, share) for share in (0.5, 0.9, 0.99)), max(delays)]
    assert seconds == [value / 1_000_000 for value in expected_quantiles]
    ledger = rig.query_rows(lake, "SELECT count(*) FROM rows WHERE _class = 'late'")[0][0]
    assert (log_lateness.shares.pairs, log_lateness.shares.at_real_speed, log_lateness.shares.as_read) == (
        len(delays),
        late,
        ledger,
    )
    assert late > ledger > 0
    assert log_lateness.shares.pace == pytest.approx(1, rel=0.2)
    assert {(segment.column, segment.value) for segment in log_lateness.segments} == {
        (None, "0"),
        (None, "1"),
        ("k", "a"),
        ("k", "b"),
        ("k", None),
    }
    partitions = [segment for segment in log_lateness.segments if segment.column is None]
    by_bin: Counter[tuple[float, float | None]] = Counter()
    for partition in partitions:
        assert sum(count.records for count in partition.histogram) == partition.records
        by_bin.update({(count.from_seconds, count.to_seconds): count.records for count in partition.histogram})
    assert {
        (bucket.from_seconds, bucket.to_seconds): bucket.records for bucket in log_lateness.histogram if bucket.records
    } == +by_bin


def test_advice_tells_of_each_setting_what_would_be_late_at_real_speed(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=40)
    events = draw_events(300, seed=7)
    rig.send(settings, topic, events)
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    lateness = gather_delays(lake)

    lengths = [(0, 0), (5, 0), (0, 12), (20, 15), (60, 0)]
    predictions = [predict(lateness.delays, o * MINUTE, a * MINUTE).real for o, a in lengths]
    assert [prediction and prediction.late for prediction in predictions] == [
        compute_expected_lateness(events, (o + a) * MINUTE)[1] for o, a in lengths
    ]
    assert predictions[0] is not None
    assert predictions[0].late > predict(lateness.delays, 0, 0).late > 0


def test_advice_on_a_log_that_was_loaded_tells_nothing_of_real_speed(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=40)
    rig.send(settings, topic, [replace(event, logged=0.0) for event in draw_events(120, seed=6)])
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    lateness = gather_delays(lake)

    assert (lateness.delays.real, lateness.log_pace) == (None, None)
    assert lateness.read_speed.is_replay


@pytest.mark.quick
def test_a_value_that_alone_is_late_is_named(quick: Settings, topic: str) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=150)
    events = [
        Event(id=i, minute=max(0, i - 40) if i % 4 == 3 and i % 12 == 3 else i, logged=i, key="ab"[i % 4 == 3])
        for i in range(300)
    ]
    rig.send(settings, topic, events)
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    log_lateness = measure_log_lateness(lake, SystemClock())

    late = log_lateness.shares.at_real_speed
    assert log_lateness.sources == (LateSource(column="k", value="b", late=late, late_share=1.0, share=0.25),)
    assert late > 10


@pytest.mark.quick
def test_the_command_keeps_what_it_found_for_the_report(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, pipeline = rig.fast(quick), rig.pipeline(topic, cap=60)
    rig.send(settings, topic, [replace(event, logged=0.0) for event in draw_events(60, seed=6)])
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    rig.for_commands(monkeypatch, settings, topic)
    assert journal_rows.find_newest_lateness(lake) is None
    capsys.readouterr()  # what the driver logged

    code = main(["lateness", "clicks", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["shares"]["pace"], answer["shares"]["at_real_speed"]) == (0, None, 0)
    assert any(note.startswith("All log timestamps are equal") for note in answer["notes"])
    stored = journal_rows.find_newest_lateness(lake)
    assert stored is not None
    assert (stored.records, stored.epoch) == (answer["records"], answer["epoch"])


def test_a_log_that_nobody_has_read_is_refused(quick: Settings, topic: str) -> None:
    with pytest.raises(LakeError, match="expected epochs that have read records, found none"):
        measure_log_lateness(PipelineLake(quick, rig.pipeline(topic)), SystemClock())
