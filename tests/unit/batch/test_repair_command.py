"""`cutover repair` without a broker: what it refuses at once, and what it shows of a repair."""

from dataclasses import replace

import pytest

from cutover.batch.repair.checks import find_by_id, require_windows
from cutover.batch.repair.cli import list_unwritten_tables
from cutover.cli.app import main
from cutover.definition import BatchJob, Fixed, Postgres, Sliding
from cutover.errors import DefinitionError
from tests.integration.reconcile.lake_of import PIPELINE

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    "words",
    [
        ["--window", "2013-01-01T00:00Z", "--dirty"],
        ["--undo", "--publish"],
        ["--undo", "--window", "2013-01-01T00:00Z"],
        ["--id", "a", "--dirty"],
        ["--undo", "--id", ""],
        ["--publish", "--cut", "3"],
        ["--why", "x" * 501],
        ["--window", "yesterday"],
        ["--window", "2013-01-01T00:30:00Z"],
        ["--window", "9999-01-01T00:00:00Z"],
    ],
)
def test_invalid_arguments_are_rejected(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", "flights", *words]) == 2
    assert "expected" in capsys.readouterr().err


def test_windows_are_named_once_and_in_order() -> None:
    assert require_windows(Fixed(hours=1), [HOUR, 0, HOUR], "p") == ((0, HOUR), (HOUR, 2 * HOUR))


def test_overlapping_sliding_windows_are_separate_windows() -> None:
    windows = require_windows(Sliding(size="1 hour", every="30 minutes"), [0, HOUR // 2], "p")

    assert windows == ((0, HOUR), (HOUR // 2, HOUR + HOUR // 2))


@pytest.mark.parametrize(("prefix", "expected"), [(None, "b2"), ("a", "a1"), ("b2", "b2")])
def test_an_id_may_be_abbreviated_to_its_prefix(prefix: str | None, expected: str) -> None:
    assert find_by_id(PIPELINE, ["a1", "b1", "b2"], prefix, subject="repair") == expected


@pytest.mark.parametrize("prefix", ["b", "c", "../", "a1x"])
def test_a_prefix_of_no_id_or_several_is_rejected(prefix: str) -> None:
    with pytest.raises(DefinitionError, match="expected one repair whose id begins with"):
        find_by_id(PIPELINE, ["a1", "b1", "b2"], prefix, subject="repair")


def test_the_tables_of_own_jobs_are_named_as_not_written() -> None:
    job = replace(PIPELINE, batch=BatchJob(table=Postgres(table="a.hourly", server="DB")))

    assert list_unwritten_tables(PIPELINE) == []
    (sentence,) = list_unwritten_tables(job)
    assert sentence.startswith("Not written: env:DB#a.hourly, of your own jobs.")
