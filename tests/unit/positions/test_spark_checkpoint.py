"""Checkpoints that are cut off, damaged, of another version, or of a query that reads no Kafka topic."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cutover.errors import LakeError
from cutover.positions.position import Position, PositionLevel, UnknownPosition, find_position
from cutover.positions.spark_checkpoint import LateRule, has_new_commits, read_checkpoint

CONF: dict[str, str] = {}


def write(folder: Path, *, batches: range = range(3), commits: int = 3, line: str = "", advance: int = 1_000) -> Path:
    """Write a checkpoint whose batches read ten records of each of two partitions."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "sources/0/0").write_bytes(b'\0v1\n{"t":{"0":0,"1":0}}')
    for number in batches:
        metadata = {"batchWatermarkMs": number * advance, "batchTimestampMs": 100_000 + number, "conf": CONF}
        ends = line or json.dumps({"t": {"0": 10 * (number + 1), "1": 10 * (number + 1)}})
        (folder / f"offsets/{number}").write_text(f"v1\n{json.dumps(metadata)}\n{ends}")
        (folder / f"offsets/.{number}.crc").write_bytes(b"crc")
        if number < commits:
            (folder / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def test_each_batch_is_judged_by_the_watermark_of_the_one_before(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(write(tmp_path / "c", commits=2)))

    assert [(batch.judged_by, batch.watermark) for batch in checkpoint.batches] == [
        (0, 0),
        (0, 1_000_000),
        (1_000_000, 2_000_000),
    ]
    assert [batch.is_committed for batch in checkpoint.batches] == [True, True, False]
    position = find_position(checkpoint, None)
    assert isinstance(position, Position)
    assert (position.topics, position.upto) == ({"t": {0: 20, 1: 20}}, {"t": {0: 30, 1: 30}})
    assert position.level is PositionLevel.BOUNDED


def test_the_judge_of_the_oldest_batch_that_is_kept_is_unknown(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(write(tmp_path / "c", batches=range(120, 123), commits=123)))

    assert [batch.judged_by for batch in checkpoint.batches] == [None, 120_000_000, 121_000_000]


def test_committed_batches_of_the_same_query_are_read_once(tmp_path: Path) -> None:
    place = write(tmp_path / "c", commits=2)
    previous = read_checkpoint(str(place))
    for number in (0, 1):
        (place / f"offsets/{number}").write_text("damaged")
    (place / "commits/2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    again = read_checkpoint(str(place), previous)

    assert again.batches[:2] == previous.batches[:2]
    assert (again.batches[2].judged_by, again.batches[2].is_committed) == (1_000_000, True)
    (place / "metadata").write_text('{"id":"another"}')
    with pytest.raises(LakeError, match="expected the version `v1`"):
        read_checkpoint(str(place), previous)


def test_new_commits_and_another_query_are_noticed(tmp_path: Path) -> None:
    place = write(tmp_path / "c", commits=2)

    assert not has_new_commits(str(place), "q", 1)
    assert has_new_commits(str(place), "another", 1)
    (place / "commits/2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert has_new_commits(str(place), "q", 1)
    assert not has_new_commits(str(place), "q", 2)


def test_a_query_that_has_committed_nothing_has_no_position(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(write(tmp_path / "c", batches=range(1), commits=0)))

    assert isinstance(find_position(checkpoint, None), UnknownPosition)


@pytest.mark.parametrize(
    "line",
    [
        '{"logOffset":3}',
        "7",
        '{"sourceVersion":1,"reservoirVersion":2}',
        '{"t":{"0":"10"}}',
        '{"t":{"0":1.5}}',
        '{"t":{"0":-1}}',
        '{"t":{"-1":1}}',
        '{"t":{"00":1}}',
        "{}",
        '{"t":{}}',
        "[" * 100_000,
    ],
)
def test_sources_other_than_kafka_are_rejected(tmp_path: Path, line: str) -> None:
    with pytest.raises(LakeError, match="the offsets of Kafka topics"):
        read_checkpoint(str(write(tmp_path / "c", line=line)))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("offsets/1", None, "`offsets/1` is missing"),
        ("offsets/1", "", "version"),
        ("offsets/1", "v2\n{}\n{}", "version"),
        ("offsets/1", "v1\n{}", "cut off"),
        ("offsets/1", 'v1\n{}\n{"t":{"0":1}}', "batchWatermarkMs"),
        ("offsets/1", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1e400}\n{"t":{"0":1}}', "batchTimestampMs"),
        ("offsets/1", 'v1\n{"batchWatermarkMs":-5,"batchTimestampMs":5}\n{"t":{"0":1}}', "batchWatermarkMs"),
        ("offsets/1", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n{"t":{"0":20}}', "partition 1"),
        ("offsets/1", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n{"t":{"0":20,"1":9}}', "at least offset 10"),
        ("offsets/1", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n-', "at least one source"),
        ("commits/1", "", "version"),
        ("metadata", '{"id":5}', "id of the query"),
        ("metadata", "[" * 100_000, "JSON object"),
        ("offsets/1", 'v1\nno json\n{"t":{"0":1}}', "JSON object"),
        ("metadata", None, "`metadata`"),
        ("metadata", "[]", "JSON object"),
    ],
)
def test_damage_is_named(tmp_path: Path, file: str, content: str | None, message: str) -> None:
    place = write(tmp_path / "c")
    if content is None:
        (place / file).unlink()
    else:
        (place / file).write_text(content)

    with pytest.raises(LakeError, match=message):
        read_checkpoint(str(place))


def test_a_checkpoint_whose_offsets_end_before_its_commits_lacks_batches(tmp_path: Path) -> None:
    place = write(tmp_path / "c")
    (place / "offsets/2").unlink()

    with pytest.raises(LakeError, match="`offsets/2` is missing"):
        read_checkpoint(str(place))


def test_an_empty_folder_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="checkpointLocation"):
        read_checkpoint(str(tmp_path))


def test_files_that_hold_no_text_are_named(tmp_path: Path) -> None:
    place = write(tmp_path / "c")
    (place / "offsets/0").write_bytes(bytes(range(256)))

    with pytest.raises(LakeError, match="offsets/0"):
        read_checkpoint(str(place))


TIMED = {"spark.watermarkDelayMs": 600_000}
GROUPED = ("stateStoreSave", [{"name": "window", "type": {"type": "struct", "fields": []}, "metadata": TIMED}])
BY_EVENT_TIME = ("stateStoreSave", [{"name": "at", "type": "timestamp", "metadata": TIMED}])
SESSIONS = ("sessionWindowStateStoreSaveExec", GROUPED[1])
ONCE = ("dedupe", [{"name": "id", "type": "long"}, {"name": "at", "type": "timestamp", "metadata": TIMED}])
ONCE_WITHIN = ("dedupeWithinWatermark", [{"name": "id", "type": "long"}])
ONCE_WINDOW = ("dedupe", GROUPED[1])
ONCE_EVER = ("dedupe", [{"name": "id", "type": "long"}])
JOIN = ("symmetricHashJoin", [{"name": "id", "type": "long"}])

UNKNOWN_TWICE = [LateRule.UNKNOWN, LateRule.UNKNOWN]


@pytest.mark.parametrize(
    ("operators", "rules"),  # the last operator of the query has the lowest number
    [
        ([GROUPED], [LateRule.WINDOW]),
        ([BY_EVENT_TIME], [LateRule.ROW]),
        ([ONCE], [LateRule.ROW]),
        ([ONCE_WITHIN], [LateRule.ROW]),
        ([ONCE_WINDOW], [LateRule.WINDOW]),
        ([ONCE_EVER], [LateRule.UNKNOWN]),
        ([JOIN], [LateRule.UNKNOWN]),
        ([SESSIONS], [LateRule.WINDOW]),
        ([SESSIONS, ONCE], [LateRule.WINDOW, LateRule.ROW]),
        ([GROUPED, ONCE], [LateRule.WINDOW, LateRule.ROW]),
        ([GROUPED, ONCE_WITHIN], [LateRule.WINDOW, LateRule.ROW]),
        ([ONCE, GROUPED], UNKNOWN_TWICE),
        ([GROUPED, ONCE_EVER], UNKNOWN_TWICE),
        ([GROUPED, ONCE_WINDOW], UNKNOWN_TWICE),
        ([GROUPED, GROUPED], UNKNOWN_TWICE),
        ([GROUPED, BY_EVENT_TIME], UNKNOWN_TWICE),
        ([GROUPED, JOIN], UNKNOWN_TWICE),
        ([GROUPED, ONCE, ONCE], [*UNKNOWN_TWICE, LateRule.UNKNOWN]),
    ],
)
def test_a_grouping_behind_a_deduplication_judges_by_the_same_watermark(
    tmp_path: Path, operators: Sequence[tuple[str, Sequence[Mapping[str, object]]]], rules: list[LateRule]
) -> None:
    write(tmp_path)
    write_operators(tmp_path, operators)

    assert [operator.late_rule for operator in read_checkpoint(str(tmp_path)).operators] == rules


EVENT_TIME = {"name": "at", "type": "timestamp", "metadata": TIMED}


@pytest.mark.parametrize(
    ("left", "right", "rule"),
    [
        (EVENT_TIME, EVENT_TIME, LateRule.ROW),
        (EVENT_TIME, {"name": "at", "type": "timestamp"}, LateRule.UNKNOWN),
        (EVENT_TIME, GROUPED[1][0], LateRule.UNKNOWN),
    ],
)
def test_a_join_drops_each_row_by_its_own_time_if_both_sides_have_a_watermark(
    tmp_path: Path, left: Mapping[str, object], right: Mapping[str, object], rule: LateRule
) -> None:
    write(tmp_path)
    write_operators(tmp_path, [JOIN])
    (tmp_path / "state/0/0/_metadata/schema").unlink()
    for side, field in (("left", left), ("right", right)):
        file = tmp_path / f"state/0/0/{side}-keyWithIndexToValue/_metadata/schema"
        file.parent.mkdir(parents=True)
        structs = [{"type": "struct", "fields": fields} for fields in ([{"name": "k", "type": "long"}], [field])]
        file.write_text("".join(json.dumps(struct, separators=(",", ":")) for struct in structs))

    assert [operator.late_rule for operator in read_checkpoint(str(tmp_path)).operators] == [rule]


@pytest.mark.parametrize(("batches", "rule"), [(3, LateRule.NEVER), (1, LateRule.UNKNOWN)])
def test_a_deduplication_without_a_watermark_drops_nothing_late(tmp_path: Path, batches: int, rule: LateRule) -> None:
    write(tmp_path, batches=range(batches), commits=batches, advance=0)
    write_operators(tmp_path, [ONCE_EVER])

    assert [operator.late_rule for operator in read_checkpoint(str(tmp_path)).operators] == [rule]


def write_operators(folder: Path, operators: Sequence[tuple[str, Sequence[Mapping[str, object]]]]) -> None:
    """Write the names of operators, and the columns of their keys."""
    for number, (name, fields) in enumerate(operators):
        metadata = folder / "state" / f"{number}" / "_metadata" / "metadata"
        schema = folder / "state" / f"{number}" / "0" / "_metadata" / "schema"
        for file in (metadata, schema):
            file.parent.mkdir(parents=True)
        metadata.write_text("v1\n" + json.dumps({"operatorInfo": {"operatorId": number, "operatorName": name}}))
        key, value = ({"type": "struct", "fields": columns} for columns in (fields, []))
        schema.write_text("v2" + json.dumps(key, separators=(",", ":")) + json.dumps(value, separators=(",", ":")))
