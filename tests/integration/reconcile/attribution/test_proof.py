"""A cause is claimed by the ledger and borne out by the log: only then a difference is explained."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from cutover.lake.journal import Journal
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient, RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import run
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.journal_rows import ProvenClaims
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, START, Lake, Raw, Sale, lake_of, log_of_lake, write
from tests.support.log.held_log import HeldLog

SALES = (*(Sale(hour=h, amount=h) for h in range(4)), Sale(epoch=1, hour=2, amount=9, kind="late"))


def write_and_compare(settings: Settings, lake: Lake, log: HeldLog | None = None) -> Report:
    write(settings, lake)
    return run.run_reconciliation(PipelineLake(settings, PIPELINE), log=log or log_of_lake(lake))


def with_log(lake: Lake, change: Callable[[dict[str, Any]], dict[str, Any]], offset: int) -> HeldLog:
    """Return the lake's log with another record at an offset."""
    records = [_change_value(r, change) if r.offset == offset else r for r in lake.log]
    return HeldLog(records=records)


def _change_value(record: RawRecord, change: Callable[[dict[str, Any]], dict[str, Any]]) -> RawRecord:
    return replace(record, value=json.dumps(change(json.loads(record.value or b""))).encode())


def of_stream(lake: Lake, values: Raw) -> Lake:
    """Return the lake with other values in the stream's accepted row of hour 2."""
    is_chosen = [
        (row["window_start"] - START).seconds == 7_200 and row["_class"] == "accepted" for row in lake.partials
    ]
    rows = tuple(row | values if is_it else row for row, is_it in zip(lake.partials, is_chosen, strict=True))
    return replace(lake, partials=rows)


def test_late_record_that_the_log_bears_out_explains_its_row(settings: Settings) -> None:
    result = write_and_compare(settings, lake_of(SALES))

    assert (result.finding.verdict, result.finding.causes["late"].rows) == (Verdict.EXPLAINED, 1)
    note = "Causes of 1 row were checked by folding the log's records again: 0 contradicted"
    assert any(note in text for text in result.finding.notes)


BETWEEN = (
    *(Sale(hour=2, amount=amount) for amount in (4, 6)),
    *(Sale(epoch=1, hour=2, amount=amount, kind="late") for amount in (1, 9)),
)


def test_late_records_explain_a_minimum_and_a_maximum(settings: Settings) -> None:
    assert write_and_compare(settings, lake_of(BETWEEN)).finding.verdict is Verdict.EXPLAINED


@pytest.mark.parametrize("values", [{"least": 3}, {"most": 8}, {"most": 2}], ids=str)
def test_wrong_minimum_or_maximum_is_not_hidden_by_a_late_record_beyond_it(settings: Settings, values: Raw) -> None:
    result = write_and_compare(settings, of_stream(lake_of(BETWEEN), values))

    assert (result.finding.verdict, result.finding.causes["unexplained"].rows) == (Verdict.DIVERGED, 1)


RECORDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "of another window": lambda fields: fields | {"at": "2026-01-01T03:01:00+00:00"},
    "of another key": lambda fields: fields | {"shop": "b"},
    "with another value": lambda fields: fields | {"amount": 10},
    "that is malformed": lambda fields: fields | {"amount": "nine"},
}


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("offset", [2, 4], ids=["accepted", "late"])
def test_position_that_holds_another_record_explains_nothing(settings: Settings, record: str, offset: int) -> None:
    lake = lake_of(SALES)

    result = write_and_compare(settings, lake, with_log(lake, RECORDS[record], offset))

    assert (result.finding.verdict, result.finding.causes["unexplained"].rows) == (Verdict.DIVERGED, 1)


def test_record_that_the_stream_left_out_without_a_word_explains_nothing(settings: Settings) -> None:
    lake = lake_of(SALES)
    more = [*lake.log, replace(lake.log[2], offset=5)]
    ranges = (*lake.ranges, lake.ranges[2] | {"first_offset": 5, "last_offset": 5})
    run_ = replace(lake.run, cut={0: 6})
    epochs = (lake.epochs[0], replace(lake.epochs[1], end={0: 6}))

    result = write_and_compare(settings, replace(lake, ranges=ranges, run=run_, epochs=epochs), HeldLog(records=more))

    assert result.finding.verdict is Verdict.DIVERGED


def test_records_that_have_left_the_log_prove_nothing(settings: Settings) -> None:
    lake = lake_of(SALES)

    result = write_and_compare(settings, lake, HeldLog(records=lake.log, begins={0: 3}))

    assert (result.finding.verdict, result.finding.exit_code, result.finding.seal.breaches[0].code) == (
        Verdict.NOT_COMPARABLE,
        2,
        "unproven",
    )
    assert "offset 2" in result.finding.sentence
    assert "starts at 3" in result.finding.sentence


def test_what_was_proven_stays_proven_when_the_log_has_let_it_go(settings: Settings) -> None:
    lake = lake_of(SALES)
    proven = write_and_compare(settings, lake)

    second_report = run.run_reconciliation(
        PipelineLake(settings, PIPELINE), log=HeldLog(records=lake.log, begins={0: 5})
    )

    assert (second_report.finding.verdict, second_report.finding.notes) == (
        proven.finding.verdict,
        proven.finding.notes,
    )
    assert second_report.finding.verdict is Verdict.EXPLAINED


def test_proof_speaks_of_the_values_that_it_saw(settings: Settings) -> None:
    write_and_compare(settings, lake_of(BETWEEN))
    later = settings.model_copy(update={"home": settings.home / "later"})
    spoilt = of_stream(lake_of(BETWEEN), {"least": 3})
    write(later, spoilt)
    for claims in Journal(settings, PIPELINE.name, ProvenClaims).read():
        Journal(later, PIPELINE.name, ProvenClaims).append(claims)

    report = run.run_reconciliation(PipelineLake(later, PIPELINE), log=log_of_lake(spoilt))

    assert report.finding.verdict is Verdict.DIVERGED


def test_what_no_class_makes_equal_needs_no_log(settings: Settings) -> None:
    lake = of_stream(lake_of(SALES), {"revenue": 100})

    assert (
        write_and_compare(settings, lake, HeldLog(records=lake.log, begins={0: 5})).finding.verdict is Verdict.DIVERGED
    )


def test_equal_sides_need_no_log(settings: Settings) -> None:
    write(settings, lake_of(SALES[:-1]))

    assert run.run_reconciliation(PipelineLake(settings, PIPELINE)).finding.verdict is Verdict.CONSISTENT


def test_log_that_was_made_again_proves_nothing(settings: Settings) -> None:
    lake = lake_of(SALES)

    result = write_and_compare(settings, lake, replace(log_of_lake(lake), topic_id="another"))

    assert (result.finding.verdict, result.finding.seal.breaches[0].code) == (Verdict.NOT_COMPARABLE, "unproven")


def produce_records(settings: Settings, records: Sequence[RawRecord]) -> LogId:
    topic = f"sales-{uuid4().hex[:8]}"
    client = LogClient(settings)
    client.create_topic(topic, partitions=1, config={})
    producer = Producer({"bootstrap.servers": client.bootstrap})
    for record in records:
        producer.produce(topic, record.value, timestamp=record.log_time_micros // 1000)
    producer.flush(30)
    return client.describe(topic)


def test_records_are_read_from_the_cluster_of_the_settings(kafka_settings: Settings) -> None:
    lake = lake_of(SALES)
    log = produce_records(kafka_settings, lake.log)
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, name=log.topic))
    log_identity = {"topic": log.topic, "topic_id": log.topic_id, "cluster_id": log.cluster_id}
    real = lake_of(SALES, pipeline)
    epochs = tuple(replace(epoch, **log_identity) for epoch in real.epochs)  # type: ignore[arg-type]  # three texts
    write(kafka_settings, replace(real, epochs=epochs, run=replace(real.run, **log_identity)), pipeline)  # type: ignore[arg-type]  # the same

    pipeline_lake = PipelineLake(kafka_settings, pipeline)
    result = run.run_reconciliation(pipeline_lake)
    explanation = explain_cell(pipeline_lake, START.replace(hour=2), ["a", "1"])

    assert (result.finding.verdict, result.finding.causes["late"].rows) == (Verdict.EXPLAINED, 1)
    assert [
        (value.measure, value.difference, value.cause) for value in explanation.values if "__" not in value.measure
    ] == [
        ("sales", 1 - 2, "late"),
        ("revenue", 2 - (2 + 9), "late"),
        ("least", 0, None),
        ("most", 2 - 9, "late"),
        ("mean", 2 - (2 + 9) / 2, "late"),
    ]
    assert [(row.class_, row.offset, row.watermark) for row in explanation.rows] == [
        ("late", 4, "2026-01-05T04:00:00Z")
    ]
