"""Readings of devices: the same for a seed, and each that was sent twice counts once, as plain Python has it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cutover.definition.loading import catalogue
from cutover.log.kafka import RawRecord
from cutover.records import reference
from cutover.records.classes import Class
from cutover.samples.readings import Record, records

DEFINITION = Path(__file__).parents[3] / "pipelines" / "readings.py"
DEVICES, HOURS = 4, 30


@pytest.fixture(scope="module")
def made() -> list[Record]:
    return records(devices=DEVICES, hours=HOURS, seed=3)


def test_same_seed_same_readings_and_another_seed_others(made: list[Record]) -> None:
    assert made == records(devices=DEVICES, hours=HOURS, seed=3) != records(devices=DEVICES, hours=HOURS, seed=4)


def test_they_come_in_the_order_of_the_log_some_late_and_some_twice(made: list[Record]) -> None:
    ids = Counter(record["id"] for record in made)

    assert [record["logged"] for record in made] == sorted(record["logged"] for record in made)
    assert sorted(ids) == list(range(DEVICES * HOURS * 30))
    assert 0 < len(made) - len(ids) < len(ids) / 20
    assert any(record["logged"] - record["at"] > 3_600_000 for record in made)


def test_a_reading_counts_once(made: list[Record]) -> None:
    (pipeline,) = catalogue.load_file(DEFINITION)
    log = [
        RawRecord(
            partition=0, offset=offset, log_time_micros=record["logged"] * 1_000, value=json.dumps(record).encode()
        )
        for offset, record in enumerate(made)
    ]

    result = reference.run(pipeline, log)

    once = {record["id"]: record for record in made}.values()
    expected = Counter((record["at"] // 600_000 * 600_000_000, record["device"]) for record in once)
    assert {(start, key): row.n for (start, _, (key,)), row in result.rows.items()} == dict(expected)
    assert result.counts[Class.DUPLICATE] == len(made) - len(once)
