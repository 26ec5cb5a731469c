"""Drivers of an installation, listed even if some of their files cannot be read."""

from dataclasses import asdict
from pathlib import Path

import pytest

from cutover import files
from cutover.driver_state import list_drivers
from cutover.process import identify_current


@pytest.mark.parametrize("broken", ["driver.json", "heartbeat.json"])
def test_a_driver_with_a_file_that_cannot_be_read_is_listed_and_the_file_is_named(tmp_path: Path, broken: str) -> None:
    place = tmp_path / "flights"
    files.write_json(place / "driver.json", asdict(identify_current()))
    files.write_json(place / "heartbeat.json", {**asdict(identify_current()), "state": "RUNNING"})
    (place / broken).write_text("{", encoding="utf-8")

    (driver,) = list_drivers(tmp_path)

    assert (driver.pipeline, driver.identity, driver.alive) == ("flights", identify_current(), True)
    assert driver.problem == f"{broken} cannot be read"
