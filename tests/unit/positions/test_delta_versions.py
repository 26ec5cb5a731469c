"""Versions of a table and the batches that wrote them: marks, times, and commits of other writers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cutover.errors import LakeError
from cutover.positions.delta_versions import Evidence, TableLog, list_table_versions
from cutover.positions.position import Position, UnknownPosition, find_position
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint

SECOND = 1_000_000
BATCHES = tuple(
    Batch(
        number=number,
        ends={"t": {0: 10 * (number + 1)}},
        planned_at=(100 + 10 * number) * SECOND,
        watermark=0,
        judged_by=0,
        is_committed=True,
    )
    for number in range(4)
)
CHECKPOINT = SparkCheckpoint(query_id="q", starts={}, batches=BATCHES, operators=())


def write(place: Path, commits: Sequence[Mapping[str, Any]]) -> str:
    """Write a table with a version for each commit: `at` seconds, operation, transactions, query."""
    for version, commit in enumerate(commits):
        write_deltalake(str(place), pa.table({"n": [version]}), mode="append")
        file = place / "_delta_log" / f"{version:020d}.json"
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        actions = [action for action in actions if "commitInfo" not in action]
        info: dict[str, Any] = {"timestamp": commit["at"] * 1_000, "operation": commit.get("operation", "MERGE")}
        if "query" in commit:
            info["operationParameters"] = {"queryId": commit["query"]}
        marks = [{"txn": {"appId": app_id, "version": number}} for app_id, number in commit.get("marks", {}).items()]
        file.write_text("\n".join(json.dumps(action) for action in [{"commitInfo": info}, *marks, *actions]))
    return str(place)


def assign(place: Path, commits: Sequence[Mapping[str, Any]]) -> list[tuple[int | None, Evidence | None, bool]]:
    versions = list_table_versions(write(place, commits), CHECKPOINT)
    return [(version.batch, version.evidence, version.is_foreign) for version in versions]


def locate(
    place: Path, commits: Sequence[Mapping[str, Any]], checkpoint: SparkCheckpoint = CHECKPOINT
) -> Position | UnknownPosition:
    return find_position(checkpoint, list_table_versions(write(place, commits), checkpoint))


def with_commits(count: int) -> SparkCheckpoint:
    batches = tuple(replace(batch, is_committed=batch.number < count) for batch in BATCHES)
    return replace(CHECKPOINT, batches=batches)


NATIVE = [{"at": 105 + 10 * n, "marks": {"q": n}, "query": "q", "operation": "STREAMING UPDATE"} for n in range(4)]
MARKED = [{"at": 105 + 10 * n, "marks": {"job": n}} for n in range(4)]
PLAIN = [{"at": 105 + 10 * n} for n in range(4)]


@pytest.mark.parametrize(
    ("commits", "evidence"), [(NATIVE, Evidence.QUERY), (MARKED, Evidence.MARK), (PLAIN, Evidence.TIME)]
)
def test_versions_belong_to_their_batches(tmp_path: Path, commits: list[dict[str, Any]], evidence: Evidence) -> None:
    assert assign(tmp_path / "a", commits) == [(number, evidence, False) for number in range(4)]
    position = locate(tmp_path / "b", commits)
    assert isinstance(position, Position)
    assert (position.topics, position.table_version) == ({"t": {0: 40}}, 3)


@pytest.mark.parametrize("numbers", [[], [1]])
def test_a_table_that_was_created_without_rows_is_empty_until_a_batch_writes_some(
    tmp_path: Path, numbers: list[int]
) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": pa.array(numbers, pa.int64())}))
    log = TableLog()

    assert not log.begins_empty
    assert len(list_table_versions(str(tmp_path), CHECKPOINT, log=log)) == len(numbers)
    assert log.begins_empty is (numbers == [])


@pytest.mark.parametrize("commits", [NATIVE, MARKED, PLAIN])
@pytest.mark.parametrize("operation", ["RESTORE", "DELETE", "WRITE", "CLONE"])
def test_a_commit_of_another_writer_makes_the_position_unknown(
    tmp_path: Path, commits: list[dict[str, Any]], operation: str
) -> None:
    position = locate(tmp_path / "t", [*commits, {"at": 500, "operation": operation}])

    assert isinstance(position, UnknownPosition)
    assert operation in position.reason


def test_rows_before_the_first_batch_are_not_foreign(tmp_path: Path) -> None:
    initial = {"at": 1, "operation": "WRITE"}

    for name, commits in (("n", NATIVE), ("m", MARKED), ("p", PLAIN)):
        assert isinstance(locate(tmp_path / name, [initial, *commits]), Position)


@pytest.mark.parametrize("operation", ["OPTIMIZE", "VACUUM END"])
def test_maintenance_is_no_version_of_a_batch(tmp_path: Path, operation: str) -> None:
    position = locate(tmp_path / "t", [*PLAIN, {"at": 500, "operation": operation}])

    assert isinstance(position, Position)
    assert position.table_version == 3


def test_a_table_that_is_ahead_of_the_checkpoint_is_rejected(tmp_path: Path) -> None:
    for name, number in (("a", 4), ("b", -1)):
        with pytest.raises(LakeError, match="a batch up to 3"):
            locate(tmp_path / name, [*NATIVE, {"at": 145, "marks": {"q": number}}])


def test_another_query_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="the query q as its only one"):
        locate(tmp_path / "t", [*NATIVE, {"at": 145, "marks": {"other": 4}, "query": "other"}])


def test_a_mark_shows_what_was_written_before_the_commit_and_a_time_does_not(tmp_path: Path) -> None:
    for name, commits in (("n", NATIVE), ("m", MARKED)):
        position = locate(tmp_path / name, commits, with_commits(3))
        assert isinstance(position, Position)
        assert position.topics == {"t": {0: 40}}

    position = locate(tmp_path / "p", PLAIN, with_commits(3))
    assert isinstance(position, UnknownPosition)
    assert "batch 3, which has not committed" in position.reason


def test_a_batch_that_changed_nothing_moves_the_position(tmp_path: Path) -> None:
    for name, commits in (("m", MARKED[:3]), ("p", PLAIN[:3])):
        position = locate(tmp_path / name, commits)
        assert isinstance(position, Position)
        assert (position.topics, position.table_version) == ({"t": {0: 40}}, 2)


def test_versions_that_are_all_later_than_the_newest_batch_are_those_of_another_query(tmp_path: Path) -> None:
    assert isinstance(locate(tmp_path / "t", [{"at": 500 + n} for n in range(4)]), UnknownPosition)
    assert isinstance(locate(tmp_path / "u", [{"at": 10 + n} for n in range(4)]), UnknownPosition)


def test_marks_that_number_no_batches_are_ignored(tmp_path: Path) -> None:
    commits = [{**commit, "marks": {"job": 1_700_000_000 + n}} for n, commit in enumerate(PLAIN)]

    assert assign(tmp_path / "t", commits) == [(number, Evidence.TIME, False) for number in range(4)]


def test_times_that_go_back_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="times ascend"):
        locate(tmp_path / "t", [*PLAIN, {"at": 120}])


@pytest.mark.parametrize("damage", [{"at": 1, "marks": {"q": "x"}}, {"at": 1, "marks": {"q": None}}])
def test_a_commit_whose_numbers_cannot_be_read_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(LakeError, match="version 0"):
        locate(tmp_path / "t", [damage])
