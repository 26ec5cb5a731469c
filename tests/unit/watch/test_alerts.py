"""Alerts by their conditions: each fires alone where its condition holds, and none otherwise."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.definition import Delta, SparkStream, Topic
from cutover.driver_state import DriverState
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.facts import Freshness, Pin, Problem, Regression, RowGrowth, SchemaMismatch, WatchFacts
from cutover.recorded_times import FOREVER
from tests.support.history.watch_facts import MICROS, NOW, PIPELINE, RUNNING, ago, make_epoch, make_facts, make_sample

HOUR = 3_600_000_000
DAY = timedelta(days=1)
ONE_KEY = tuple(make_epoch(i, one_key_share=0.6, counts={"accepted": 2_000}) for i in range(10))
HELD = tuple(make_epoch(i, age=401 - 100 * i, max_event={0: MICROS, 1: MICROS - HOUR}) for i in range(5))
REPLAY = replace(PIPELINE, source=Topic(name="c", schema="at timestamp", event_time="at", log_time="at"))
UNGUARDED = replace(PIPELINE, lateness=replace(PIPELINE.lateness, max_ahead="5000 days"))
FOLLOWED = replace(PIPELINE, stream=SparkStream(table=Delta("/table"), checkpoint="/checkpoint", output_mode="append"))
PROMPT = replace(FOLLOWED, policy=replace(FOLLOWED.policy, job_reads_within="10 minutes"))
UNREAD: dict[str, Any] = {"end_offsets": {0: 60, 1: 50}, "high_watermarks": {0: 60, 1: 50}}
OPEN: dict[str, Any] = {"high_watermarks": {0: 55, 1: 50}}


def driver(**changes: object) -> DriverState:
    return replace(RUNNING, **changes)  # type: ignore[arg-type]  # a test names real fields


REGRESSION = Regression(rows=1, example="a row", epoch=7, at="2026-01-01T00:00:00Z")
FIRING = [
    pytest.param(make_facts(regression=REGRESSION), "RetirementRegression", id="audit found a row"),
    pytest.param(
        make_facts(driver=DriverState(alive=False, state="FAILED", error="x", runbook="StreamFenced")),
        "StreamFenced",
        id="named",
    ),
    pytest.param(
        make_facts(driver=DriverState(alive=False, state="FAILED", error="x")), "StreamNotRunning", id="failed"
    ),
    pytest.param(
        make_facts(
            epochs=(make_epoch(age=130),), sampled=UNREAD, driver=DriverState(alive=False, state="DIED", at=ago(121))
        ),
        "StreamNotRunning",
        id="died, records unread",
    ),
    pytest.param(
        make_facts(sampled=UNREAD, epochs=(make_epoch(age=1),), driver=DriverState(run_id="q", epoch=7, at=ago(121))),
        "StreamNotRunning",
        id="stopped after it had found nothing new, records unread since",
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(age=3_721),), sampled=UNREAD, driver=DriverState(at=ago(9), epoch=6)),
        "StreamNotRunning",
        id="another host committed last, too long ago for any clock",
    ),
    pytest.param(make_facts(sampled=UNREAD, driver=driver(unread_since=ago(121))), "StreamNotRunning", id="hangs"),
    pytest.param(
        make_facts(sampled=UNREAD, driver=driver(unread_since=ago(-479), ahead=600.0)),
        "StreamNotRunning",
        id="fast clock",
    ),
    pytest.param(
        make_facts(samples=(make_sample(age=121, **UNREAD), make_sample(**UNREAD))),
        "StreamNotRunning",
        id="hangs, by our own samples",
    ),
    pytest.param(
        make_facts(epochs=(), unread_before_first_epoch=5, driver=DriverState(alive=False, state="DIED", at=ago(121))),
        "StreamNotRunning",
        id="died before its first epoch",
    ),
    pytest.param(
        make_facts(epochs=(), unread_before_first_epoch=5, driver=driver(unread_since=ago(121))),
        "StreamNotRunning",
        id="no first epoch",
    ),
    pytest.param(
        make_facts(driver=DriverState(state="FAILED", error="x", runbook="FollowedJobBroken")),
        "FollowedJobBroken",
        id="checkpoint replaced",
    ),
    pytest.param(
        make_facts(pipeline=FOLLOWED, sampled=UNREAD, driver=driver(job_unread_since=ago(901), job_silence=3.0)),
        "FollowedJobStopped",
        id="job that made batches every few seconds",
    ),
    pytest.param(
        make_facts(pipeline=PROMPT, sampled=UNREAD, driver=driver(job_unread_since=ago(601), job_silence=4e5)),
        "FollowedJobStopped",
        id="job that has to read within ten minutes",
    ),
    pytest.param(
        make_facts(
            pipeline=FOLLOWED, sampled=UNREAD, driver=driver(job_unread_since=ago(172_801), job_silence=172_800)
        ),
        "FollowedJobStopped",
        id="nightly job that missed two nights",
    ),
    pytest.param(make_facts(driver=driver(silent_since=ago(61))), "KafkaUnreachable", id="silent to the driver"),
    pytest.param(make_facts(silent_seconds=61.0), "KafkaUnreachable", id="silent to us"),
    pytest.param(
        make_facts(epochs=(make_epoch(conflicts=4), make_epoch(8, conflicts=2))),
        "CommitConflictRateHigh",
        id="conflicts",
    ),
    pytest.param(make_facts(driver=driver(skew={"0": -121.0})), "ClockSkew", id="log ahead"),
    pytest.param(make_facts(driver=driver(skew={"0": 1.0, "1": 600.0})), "ClockSkew", id="log behind"),
    pytest.param(make_facts(sampled={"start_offsets": {0: 51, 1: 0}}), "LogDataLost", id="start passed the reader"),
    pytest.param(
        make_facts(sampled={"end_offsets": {0: 50, 1: 9}, "high_watermarks": {0: 50, 1: 9}}),
        "LogDataLost",
        id="end before the reader",
    ),
    pytest.param(
        make_facts(sampled={"end_offsets": {0: 50}, "high_watermarks": {0: 50}}), "LogDataLost", id="partition deleted"
    ),
    pytest.param(make_facts(compacted_topics=("topic c: cleanup.policy is compact",)), "LogDataLost", id="compacted"),
    pytest.param(
        make_facts(lossy_epochs=("Epoch 3 read 40 records, the log holds 12",)), "LogDataLost", id="epoch lost records"
    ),
    pytest.param(
        make_facts(sampled={"topic_id": "other", "start_offsets": {0: 60}}),
        "TopicIdentityChanged",
        id="topic created again",
    ),
    pytest.param(
        make_facts(sampled={"end_offsets": {0: 50, 1: 50, 2: 0}}),
        "PartitionsChanged",
        id="partition that was never read",
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(6, end={0: 50}), make_epoch())),
        "PartitionsChanged",
        id="partition read a moment ago",
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(6, age=9_000, end={0: 50}), make_epoch())),
        "PartitionsChanged",
        id="partition added to a quiet stream",
    ),
    pytest.param(
        make_facts(sampled=OPEN, driver=driver(open_since={"0": ago(121)})), "OpenTransactionHoldsLog", id="open"
    ),
    pytest.param(
        make_facts(samples=(make_sample(age=121, **OPEN), make_sample(age=60, **OPEN), make_sample(**OPEN))),
        "OpenTransactionHoldsLog",
        id="open, by our own samples",
    ),
    pytest.param(make_facts(retention=timedelta(hours=1)), "RetentionHeadroomLow", id="retention below two outages"),
    pytest.param(
        make_facts(retention=timedelta(hours=3), sampled=UNREAD | {"first_unread_times": {0: MICROS - HOUR - 1}}),
        "RetentionHeadroomLow",
        id="backlog older than the remaining retention",
    ),
    pytest.param(
        make_facts(retention=timedelta(hours=3), replay_time=timedelta(hours=1, seconds=1)),
        "RetentionHeadroomLow",
        id="replay",
    ),
    pytest.param(
        make_facts(
            samples=(
                make_sample(age=600, end_offsets={0: 48, 1: 50}),
                make_sample(age=10, end_offsets={0: 49, 1: 50}, start_offsets={0: 1, 1: 0}),
                make_sample(start_offsets={0: 2, 1: 0}),
            )
        ),
        "RetentionHeadroomLow",
        id="start moves fast",
    ),
    pytest.param(
        make_facts(
            samples=(
                make_sample(age=310, end_offsets={0: 48, 1: 50}),
                make_sample(age=305, end_offsets={0: 48, 1: 50}, start_offsets={0: 10}),
                make_sample(age=5, end_offsets={0: 49, 1: 50}, start_offsets={0: 20}),
                make_sample(start_offsets={0: 20}),
            )
        ),
        "RetentionHeadroomLow",
        id="three segments are left, one goes every five minutes",
    ),
    pytest.param(
        make_facts(samples=(make_sample(age=10), make_sample(start_offsets={0: 25, 1: 0}))),
        "RetentionHeadroomLow",
        id="the next deletion would reach the reader",
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(watermark_after=MICROS + HOUR),)), "WatermarkAheadOfClock", id="beyond max_ahead"
    ),
    pytest.param(
        make_facts(pipeline=UNGUARDED, epochs=(make_epoch(watermark_after=MICROS + 24 * HOUR),)),
        "WatermarkAheadOfClock",
        id="beyond a day, where the definition takes any event",
    ),
    pytest.param(make_facts(epochs=HELD), "WatermarkHeld", id="records are read, watermark does not move"),
    pytest.param(make_facts(driver=driver(quiet_since=ago(61))), "NoInput", id="nothing new for a minute"),
    pytest.param(make_facts(samples=(make_sample(age=61), make_sample())), "NoInput", id="nothing new between samples"),
    pytest.param(
        make_facts(epochs=(make_epoch(age=61),), driver=DriverState(run_id="r")), "NoInput", id="nothing new, stopped"
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(age=3_661),)), "NoInput", id="nothing new for longer than clocks differ"
    ),
    pytest.param(make_facts(epochs=(make_epoch(counts={"accepted": 98, "late": 2}),)), "LateRateHigh", id="late"),
    pytest.param(make_facts(epochs=(make_epoch(counts={"malformed": 2}),)), "MalformedRateHigh", id="malformed"),
    pytest.param(make_facts(epochs=(make_epoch(counts={"future": 2}),)), "FutureEvents", id="future"),
    pytest.param(make_facts(epochs=(make_epoch(counts={"duplicate": 20}),)), "DuplicateRateHigh", id="duplicate"),
    pytest.param(make_facts(epochs=(make_epoch(counts={"filtered": 100}),)), "FilteredRateHigh", id="filtered"),
    pytest.param(
        make_facts(
            epochs=(
                make_epoch(6, age=4_000, counts={"filtered": 60}, records=60),
                make_epoch(counts={"filtered": 40}, records=40),
            )
        ),
        "FilteredRateHigh",
        id="filtered, of few records in a long time",
    ),
    pytest.param(
        make_facts(schema_mismatches=(SchemaMismatch(description="field `x` is missing", partition=0, offset=9),)),
        "SchemaChanged",
        id="unfit",
    ),
    pytest.param(make_facts(epochs=ONE_KEY), "KeySkewHigh", id="one key"),
    pytest.param(
        make_facts(row_growth=RowGrowth(last_hour=200_001, usual=100_000.0, hours=24)),
        "TableGrowthHigh",
        id="twice a usual hour",
    ),
    pytest.param(make_facts(problems=(Problem(runbook="TableUnreadable", text="x"),)), "TableUnreadable", id="table"),
    pytest.param(
        make_facts(batch_freshness=Freshness(latest=NOW - timedelta(hours=2, seconds=1), schedule=timedelta(hours=1))),
        "BatchNotFresh",
        id="two schedules without a run",
    ),
    pytest.param(
        make_facts(audit_freshness=Freshness(latest=NOW - timedelta(days=2, seconds=1), schedule=timedelta(days=1))),
        "AuditNotFresh",
        id="two days without an audit",
    ),
    pytest.param(
        make_facts(
            verdict_freshness=Freshness(latest=NOW - timedelta(hours=2, seconds=1), schedule=timedelta(hours=1))
        ),
        "ReconcilerNotRunning",
        id="two schedules without a verdict",
    ),
    pytest.param(
        make_facts(
            pins=(Pin(holder="h", epoch=1, expires_at=NOW + timedelta(days=2), files_until=NOW + timedelta(days=1)),)
        ),
        "PinnedVersionAtRisk",
        id="files go before the pin",
    ),
    pytest.param(make_facts(free_bytes={"lake": (1 << 30) - 1}), "DiskHeadroomLow", id="below a gigabyte"),
    pytest.param(
        make_facts(free_bytes={"reports": 5 << 30}, recent_growth_bytes=6 << 30),
        "DiskHeadroomLow",
        id="below the growth",
    ),
]

QUIET = [
    pytest.param(
        make_facts(pipeline=FOLLOWED, sampled=UNREAD, driver=driver(job_unread_since=ago(90_000), job_silence=172_800)),
        id="nightly job, a day after its batch",
    ),
    pytest.param(
        make_facts(pipeline=FOLLOWED, sampled=UNREAD, driver=driver(job_unread_since=ago(899), job_silence=3.0)),
        id="job that is restarted",
    ),
    pytest.param(
        make_facts(pipeline=PROMPT, sampled=UNREAD, driver=driver(job_unread_since=ago(599))), id="job within its time"
    ),
    pytest.param(make_facts(pipeline=PROMPT, driver=driver(job_silence=3.0)), id="job without new records"),
    pytest.param(
        make_facts(pipeline=FOLLOWED, sampled=UNREAD, driver=driver(job_unread_since=ago(9e9))),
        id="job that has made no batch yet",
    ),
    pytest.param(make_facts(), id="healthy"),
    pytest.param(make_facts(epochs=()), id="before the first run"),
    pytest.param(
        make_facts(
            epochs=(make_epoch(6, age=9_000, end={0: 50}), make_epoch(7, age=700, watermark_after=0), make_epoch(8))
        ),
        id="partition known for long",
    ),
    pytest.param(make_facts(epochs=(), unread_before_first_epoch=5), id="before the first start"),
    pytest.param(
        make_facts(epochs=(), unread_before_first_epoch=5, driver=driver(unread_since=ago(9))),
        id="its first epoch is under way",
    ),
    pytest.param(
        make_facts(epochs=(), driver=DriverState(state="DIED", at=ago(999))), id="died without a record to read"
    ),
    pytest.param(make_facts(sampled=UNREAD, driver=driver(unread_since=ago(119))), id="a moment behind"),
    pytest.param(make_facts(sampled=UNREAD), id="a record came after a long quiet"),
    pytest.param(
        make_facts(sampled=UNREAD, driver=driver(unread_since=ago(719), ahead=-600.0)), id="driver's clock is slow"
    ),
    pytest.param(
        make_facts(
            epochs=(make_epoch(age=200),), sampled=UNREAD, driver=DriverState(alive=False, state="DIED", at=ago(119))
        ),
        id="died just now",
    ),
    pytest.param(make_facts(driver=DriverState(alive=False, state="STOPPED")), id="stopped on purpose"),
    pytest.param(make_facts(driver=driver(quiet_since=ago(59))), id="nothing new for a moment"),
    pytest.param(make_facts(epochs=(make_epoch(age=3_659),)), id="read by a driver whose clock may be behind"),
    pytest.param(
        make_facts(epochs=(make_epoch(age=3_659),), driver=DriverState()), id="read by a driver on another host"
    ),
    pytest.param(
        make_facts(
            epochs=(make_epoch(age=3_659),), sampled=UNREAD, driver=DriverState(at=ago(9_000), epoch=6, run_id="q")
        ),
        id="committed by a driver on another host, whose clock may be behind",
    ),
    pytest.param(make_facts(driver=driver(silent_since=ago(59))), id="silent for a moment"),
    pytest.param(make_facts(epochs=(make_epoch(conflicts=5),)), id="five conflicts"),
    pytest.param(
        make_facts(row_growth=RowGrowth(last_hour=200_000, usual=100_000.0, hours=24)), id="twice as many rows as usual"
    ),
    pytest.param(
        make_facts(row_growth=RowGrowth(last_hour=900_000, usual=100_000.0, hours=23)), id="usual hour unknown"
    ),
    pytest.param(make_facts(row_growth=RowGrowth(last_hour=100_000, usual=10.0, hours=99)), id="growth of a few rows"),
    pytest.param(make_facts(epochs=(make_epoch(6, age=601, conflicts=6), make_epoch())), id="conflicts of long ago"),
    pytest.param(make_facts(driver=driver(skew={"0": 120.0})), id="two minutes are no skew"),
    pytest.param(make_facts(pipeline=REPLAY, driver=driver(skew={"0": 4e8})), id="log time of a replay"),
    pytest.param(make_facts(sampled={"start_offsets": {0: 50, 1: 0}}), id="start at the reader"),
    pytest.param(
        make_facts(sampled=UNREAD | {"start_offsets": {0: 55, 1: 0}}, next_offsets={0: 55, 1: 50}),
        id="loss that was recorded",
    ),
    pytest.param(make_facts(sampled=OPEN, driver=driver(open_since={"0": ago(119)})), id="transaction of a moment"),
    pytest.param(make_facts(samples=(make_sample(age=121), make_sample(**OPEN))), id="transaction that began now"),
    pytest.param(make_facts(retention=timedelta(hours=2)), id="retention of two outages"),
    pytest.param(
        make_facts(samples=(make_sample(age=10), make_sample(start_offsets={0: 24, 1: 0}))),
        id="one deletion of records that are read",
    ),
    pytest.param(
        make_facts(
            samples=(
                make_sample(age=310, end_offsets={0: 48, 1: 50}),
                make_sample(age=305, end_offsets={0: 48, 1: 50}, start_offsets={0: 25}),
                make_sample(age=5, end_offsets={0: 49, 1: 50}, start_offsets={0: 26}),
                make_sample(start_offsets={0: 26}),
            )
        ),
        id="retention of four hours, one segment every five minutes",
    ),
    pytest.param(
        make_facts(samples=(make_sample(age=10, topic_id="before"), make_sample(start_offsets={0: 50, 1: 50}))),
        id="start of another topic",
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(watermark_after=MICROS + HOUR - 60_000_000),)), id="watermark at its limit"
    ),
    pytest.param(make_facts(epochs=(make_epoch(watermark_after=MICROS + 9 * HOUR, final=True),)), id="sealed"),
    pytest.param(make_facts(epochs=HELD[2:]), id="watermark has not moved for 200 s"),
    pytest.param(
        make_facts(pipeline=FOLLOWED, samples=(make_sample(age=121, **UNREAD), make_sample(**UNREAD))),
        id="the job that is followed has not read them yet",
    ),
    pytest.param(
        make_facts(pipeline=FOLLOWED, epochs=HELD), id="the watermark of a job is that of its newest partition"
    ),
    pytest.param(
        make_facts(
            epochs=(HELD[0], *(replace(r, records=0, tick=True) for r in HELD[1:]), make_epoch(9, watermark_after=9))
        ),
        id="watermark moved",
    ),
    pytest.param(make_facts(epochs=(make_epoch(age=59),)), id="quiet for less than a minute"),
    pytest.param(
        make_facts(epochs=(make_epoch(counts={"accepted": 99, "late": 1, "malformed": 1, "future": 1}),)), id="policy"
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(6, age=601, counts={"malformed": 99}), make_epoch())), id="malformed long ago"
    ),
    pytest.param(make_facts(epochs=(make_epoch(counts={"filtered": 99}),)), id="one of a hundred passes the filter"),
    pytest.param(
        make_facts(epochs=(make_epoch(counts={"filtered": 99}, records=99),)), id="too few to say what is filtered"
    ),
    pytest.param(
        make_facts(epochs=(make_epoch(6, age=601, counts={"filtered": 100}), make_epoch())),
        id="filtered before the newest hundred",
    ),
    pytest.param(make_facts(epochs=ONE_KEY[1:]), id="one key in nine epochs"),
    pytest.param(
        make_facts(epochs=(*ONE_KEY[1:], replace(ONE_KEY[0], one_key_share=0.5))), id="another key in between"
    ),
    pytest.param(
        make_facts(epochs=tuple(replace(r, counts={"accepted": 999}) for r in ONE_KEY)), id="one key of small epochs"
    ),
    pytest.param(
        make_facts(batch_freshness=Freshness(latest=NOW - timedelta(hours=2), schedule=timedelta(hours=1))),
        id="batch is fresh",
    ),
    pytest.param(
        make_facts(verdict_freshness=Freshness(latest=NOW - timedelta(hours=2), schedule=timedelta(hours=1))),
        id="verdict is fresh",
    ),
    *(
        pytest.param(
            make_facts(batch_freshness=age, verdict_freshness=age, audit_freshness=age),
            id=f"ages in doubt by {age.uncertainty.days} days",
        )
        for age in (Freshness(latest=NOW - 4 * DAY, schedule=DAY, uncertainty=doubt) for doubt in (2 * DAY, FOREVER))
    ),
    pytest.param(make_facts(free_bytes={"lake": 1 << 30}), id="a gigabyte is free"),
]


@pytest.mark.parametrize(("facts", "expected"), FIRING)
def test_condition_fires_only_its_alert(facts: WatchFacts, expected: str) -> None:
    assert [alert.name for alert in list_firing(facts)] == [expected]


@pytest.mark.parametrize("facts", QUIET)
def test_nothing_fires_without_its_condition(facts: WatchFacts) -> None:
    assert list_firing(facts) == ()
