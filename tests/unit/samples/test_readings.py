"""Readings of devices: deterministic for a seed, and a reading sent twice counts once."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cutover.definition.loading import catalogue
from cutover.log.kafka import RawRecord
from cutover.records import reference
from cutover.records.classes import Class
from cutover.samples.readings import Record, make_readings

DEFINITION = Path(__file__).parents[3] / "pipelines" / "readings.py"
DEVICES, HOURS = 4, 30


@pytest.fixture(scope="module")
def readings() -> list[Record]:
    return make_readings(devices=DEVICES, hours=HOURS, seed=3)


def test_the_seed_determines_the_readings(readings: list[Record]) -> None:
    assert (
        readings
        == make_readings(devices=DEVICES, hours=HOURS, seed=3)
        != make_readings(devices=DEVICES, hours=HOURS, seed=4)
    )


def test_readings_are_in_log_order_with_late_and_duplicate_ones(readings: list[Record]) -> None:
    ids = Counter(record["id"] for record in readings)

    assert [record["logged"] for record in readings] == sorted(record["logged"] for record in readings)
    assert sorted(ids) == list(range(DEVICES * HOURS * 30))
    assert 0 < len(readings) - len(ids) < len(ids) / 20
    assert any(record["logged"] - record["at"] > 3_600_000 for record in readings)


def test_a_reading_counts_once(readings: list[Record]) -> None:
    (pipeline,) = catalogue.load_file(DEFINITION)
    log = [
        RawRecord(
            partition=0, offset=offset, log_time_micros=record["logged"] * 1_000, value=json.dumps(record).encode()
        )
        for offset, record in enumerate(readings)
    ]

    result = reference.compute_reference(pipeline, log)

    once = {record["id"]: record for record in readings}.values()
    expected = Counter((record["at"] // 600_000 * 600_000_000, record["device"]) for record in once)
    assert {(start, key): row.n for (start, _, (key,)), row in result.rows.items()} == dict(expected)
    assert result.counts[Class.DUPLICATE] == len(readings) - len(once)
