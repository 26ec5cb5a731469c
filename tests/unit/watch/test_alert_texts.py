"""Order and texts of alerts: severity, partitions as Kafka names them, and numbers."""

from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import Join, Sliding
from cutover.definition.model.joins import RIGHT_PARTITION_BASE as RIGHT
from cutover.driver_state import DriverState
from cutover.reconcile.watch.alerts.catalogue import list_firing
from tests.support.history.watch_facts import PIPELINE, ago, make_epoch, make_facts, make_sample
from tests.unit.watch.test_alerts import HELD, OPEN, driver


def test_pages_come_before_tickets_and_infos() -> None:
    facts = make_facts(
        epochs=(make_epoch(age=130, counts={"late": 9}),),
        driver=driver(state="FAILED", runbook="StreamFenced", quiet_since=ago(130)),
    )

    assert [alert.severity for alert in list_firing(facts)] == ["page", "ticket", "info"]


def test_held_watermark_names_the_partition() -> None:
    assert "topic clicks, partition 1 holds it" in list_firing(make_facts(epochs=HELD))[0].text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"start_offsets": {0: 0, RIGHT: 51}},
            "topic sales, partition 0: offset 50 is next, the log starts at 51",
        ),
        (
            {"end_offsets": {0: 50, RIGHT: 50, RIGHT + 2: 0}},
            "new: topic sales, partition 2. The log has 3 partitions",
        ),
        ({"high_watermarks": {0: 50, RIGHT: 55}}, "topic sales, partition 0 has been held at offset 50"),
    ],
    ids=["lost records", "new partition", "open transaction"],
)
def test_partition_of_the_right_topic_of_a_join_has_the_names_of_kafka(changes: dict[str, Any], text: str) -> None:
    joined = replace(PIPELINE, join=Join(right=replace(PIPELINE.source, name="sales"), on={"k": "k"}))
    offsets = {0: 50, RIGHT: 50}
    sampled = {"epoch": make_epoch(end=offsets), "end_offsets": offsets, "high_watermarks": offsets, **changes}
    facts = make_facts(
        epochs=(make_epoch(end=offsets),),
        samples=(make_sample(age=130, **sampled), make_sample(age=125, **sampled), make_sample(**sampled)),
        next_offsets=offsets,
    )

    assert text in list_firing(replace(facts, pipeline=joined))[0].text


def test_partition_with_a_skewed_clock_has_the_names_of_kafka() -> None:
    joined = replace(PIPELINE, join=Join(right=replace(PIPELINE.source, name="sales"), on={"k": "k"}))
    facts = replace(make_facts(driver=driver(skew={str(RIGHT + 3): 600.0})), pipeline=joined)

    assert list_firing(facts)[0].text.startswith("topic sales, partition 3: new log timestamps are")


def test_text_of_a_driver_is_shown_without_control_characters() -> None:
    failed = DriverState(alive=False, state="FAILED", error="a\x1b[31m\nb")

    assert list_firing(make_facts(driver=failed))[0].text == r"a\x1b[31m\nb"


def test_open_transaction_is_shown_with_its_offset_and_waiting_records() -> None:
    text = list_firing(make_facts(sampled=OPEN, driver=driver(open_since={"0": ago(130)})))[0].text

    assert "topic clicks, partition 0 has been held at offset 50" in text
    assert "5 offsets wait" in text


def test_share_of_a_class_counts_records_where_one_falls_into_several_windows() -> None:
    sliding = replace(PIPELINE, window=Sliding(size="1 hour", every="10 minutes"))

    def list_texts(future: int) -> list[str]:
        counts = {"future": 6 * future, "accepted": 6 * (1_000 - future)}
        firing = list_firing(replace(make_facts(epochs=(make_epoch(records=1_000, counts=counts),)), pipeline=sliding))
        return [alert.text for alert in firing if alert.name == "FutureEvents"]

    assert list_texts(10) == []
    assert list_texts(11) == ["1.1\u202f% of 1,000 records in 10\u202fmin are future, the policy allows 1\u202f%"]


def test_share_of_late_pairs_is_counted_in_pairs() -> None:
    sliding = replace(PIPELINE, window=Sliding(size="1 hour", every="10 minutes"))
    late = replace(make_facts(epochs=(make_epoch(counts={"late": 60, "accepted": 540}),)), pipeline=sliding)

    assert "of 600 (record, window) pairs in" in next(
        alert.text for alert in list_firing(late) if alert.name == "LateRateHigh"
    )
