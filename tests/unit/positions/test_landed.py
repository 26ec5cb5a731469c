"""Landed copies: the offsets that their columns and the names of their files show, and the gaps between them."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.positions.landed_copy import LandedGap, LandedPartition, find_landed_position, read_landed_columns
from cutover.positions.landed_names import read_landed_names
from cutover.positions.position import Position, PositionLevel, UnknownPosition

RECORDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), min_size=1, max_size=40)


def make_rows(offsets: Sequence[tuple[int, int]], *, topic: str = "t") -> pa.Table:
    return pa.table(
        {
            "topic": pa.array([topic] * len(offsets), pa.string()),
            "partition": pa.array([partition for partition, _ in offsets], pa.int32()),
            "offset": pa.array([offset for _, offset in offsets], pa.int64()),
        }
    )


def read_partitions(uri: Path, topics: Sequence[str] = ()) -> dict[int, LandedPartition]:
    copy = read_landed_columns(str(uri), topics) or read_landed_names(str(uri), topics)
    assert copy is not None
    return {partition.partition: partition for partition in copy.partitions}


@given(RECORDS, st.integers(1, 3))
def test_columns_show_every_gap_and_duplicate(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, int]], files: int
) -> None:
    place = tmp_path_factory.mktemp("copy")
    for number in range(files):
        pq.write_table(make_rows(records[number::files]), place / f"{number}.parquet")

    partitions = read_partitions(place)

    for number, partition in partitions.items():
        offsets = [offset for p, offset in records if p == number]
        missing = {offset for gap in partition.gaps for offset in range(gap.start, gap.end)}
        assert missing == set(range(min(offsets), max(offsets))) - set(offsets)
        assert (partition.first, partition.next_offset) == (min(offsets), max(offsets) + 1)
        assert partition.duplicates == len(offsets) - len(set(offsets))
    assert partitions.keys() == {p for p, _ in records}


def test_a_copy_without_gaps_is_exact_and_one_with_gaps_bounded(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "a"), make_rows([(0, 5), (0, 6), (1, 0)]))
    write_deltalake(str(tmp_path / "b"), make_rows([(0, 0), (0, 1), (0, 4), (1, 0)]))
    levels = []
    for name in ("a", "b"):
        copy = read_landed_columns(str(tmp_path / name), ())
        assert copy is not None
        report = find_landed_position(copy)
        assert isinstance(report.position, Position)
        levels.append((report.position.level, report.position.topics, report.notes, report.position.table_version))

    assert levels[0] == (PositionLevel.EXACT, {"t": {0: 7, 1: 1}}, ("t, partition 0: begins at offset 5.",), 0)
    assert levels[1] == (
        PositionLevel.BOUNDED,
        {"t": {0: 2, 1: 1}},
        ("t, partition 0: 2 offsets are missing: 2 to 3.",),
        0,
    )


@pytest.mark.parametrize(
    "names", [("kafka_partition", "kafka_offset"), ("__partition", "__offset"), ("kafkaPartition", "kafkaOffset")]
)
def test_columns_are_recognized_by_usual_names(tmp_path: Path, names: tuple[str, str]) -> None:
    rows = make_rows([(0, 0), (0, 1)]).drop_columns(["topic"]).rename_columns(list(names))
    pq.write_table(rows, tmp_path / "a.parquet")

    assert read_partitions(tmp_path, ["t"])[0].next_offset == 2
    with pytest.raises(DefinitionError, match="`--topic` once"):
        read_partitions(tmp_path)


def test_folders_may_have_the_partition(tmp_path: Path) -> None:
    (tmp_path / "partition=3").mkdir()
    pq.write_table(make_rows([(3, 0), (3, 1)]).select(["offset"]), tmp_path / "partition=3" / "t+3+0000000000.parquet")

    assert read_partitions(tmp_path, ["t"])[3].next_offset == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"topic": ["t"], "partition": [0], "offset": pa.array([None], pa.int64())}), "1 row has none"),
        (pa.table({"topic": ["t"], "partition": [0], "offset": [-1]}), "1 row has none"),
        (pa.table({"topic": ["t"], "partition": [0], "offset": ["7"]}), "whole numbers in `offset`"),
        (pa.table({"topic": ["t"], "partition": [0.0], "offset": [1]}), "whole numbers in `partition`"),
        (pa.table({"topic": ["t"], "partition": [0], "offset": pa.array([2**64 - 1], pa.uint64())}), "can be read"),
        (pa.table({"topic": ["u"], "partition": [0], "offset": [1]}), "found none"),
        (pa.table({"topic": ["t"], "partition": [0], "_offset": [1], "__offset": [1]}), "one column of offsets"),
    ],
)
def test_rows_without_offsets_are_rejected(tmp_path: Path, rows: pa.Table, message: str) -> None:
    pq.write_table(rows, tmp_path / "a.parquet")

    with pytest.raises(CutoverError, match=message):
        read_landed_columns(str(tmp_path), ["t"])


def write_files(place: Path, records: Mapping[str, int]) -> Path:
    """Write files of JSON lines, Avro or Parquet with a number of records each."""
    for name, count in records.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(json.dumps({"n": n}) for n in range(count))
        if name.endswith(".gz"):
            file.write_bytes(gzip.compress(lines.encode()))
        elif name.endswith(".avro"):
            sync = bytes(range(16))
            header = b"Obj\x01" + b"\x02" + b"\x02k" + b"\x02v" + b"\x00" + sync
            blocks = [bytes([2 * 1]) + b"\x04ab" + sync for _ in range(count)]
            file.write_bytes(header + b"".join(blocks))
        elif name.endswith(".parquet"):
            pq.write_table(pa.table({"n": list(range(count))}), file)
        else:
            file.write_text(lines)
    return place


def test_names_with_both_offsets_show_gaps_and_overlaps(tmp_path: Path) -> None:
    names = [
        "t+0+0000000000+0000000009.avro",
        "t+0+0000000010+0000000019.avro",
        "t+0+0000000025+0000000029.avro",
        "t+0+0000000028+0000000031.avro",
        "_tmp/t+0+99+99.avro",
        "t+0.avro",
    ]
    partition = read_partitions(write_files(tmp_path, dict.fromkeys(names, 0)))[0]

    assert partition == LandedPartition(
        topic="t", partition=0, first=0, next_offset=32, gaps=(LandedGap(start=20, end=25),), duplicates=2
    )


@pytest.mark.parametrize("extension", ["json", "json.gz", "avro", "parquet"])
def test_names_without_an_end_need_the_number_of_records(tmp_path: Path, extension: str) -> None:
    files = {f"topics/t/year=2026/t+0+{start:010d}.{extension}": count for start, count in ((0, 3), (3, 2), (7, 4))}
    partition = read_partitions(write_files(tmp_path, files))[0]

    assert partition == LandedPartition(
        topic="t",
        partition=0,
        first=0,
        next_offset=7,
        gaps=(LandedGap(start=4, end=7, missing=2),),
        duplicates=0,
        open_records=4,
    )
    copy = read_landed_names(str(tmp_path), ["t"])
    assert copy is not None
    report = find_landed_position(copy)
    assert isinstance(report.position, UnknownPosition)
    assert "`--check-log` counts from 7" in report.position.reason


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t+0+0.avro", b"Obj\x01\x02"),
        ("t+0+0.avro", b"x"),
        ("t+0+0.json.gz", b"x"),
        ("t+0+0.bin", b"x"),
        ("t+0+0.parquet", b""),
    ],
)
def test_files_that_cannot_be_counted_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(LakeError, match=r"t\+0\+0"):
        read_landed_names(str(tmp_path), [])


def test_a_folder_without_a_copy_is_rejected(tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(DefinitionError, match="--landed"):
            read_landed_names(str(place), [])
    (tmp_path / "a.json").write_text("{}")
    assert read_landed_names(str(tmp_path), []) is None
    assert read_landed_columns(str(tmp_path), []) is None


@pytest.mark.parametrize("listing", ["_spark_metadata/0", "metadata/v1.metadata.json", ".hoodie/a"])
def test_a_folder_whose_files_do_not_all_count_is_rejected(tmp_path: Path, listing: str) -> None:
    pq.write_table(make_rows([(0, 0)]), tmp_path / "a.parquet")
    (tmp_path / listing).parent.mkdir()
    (tmp_path / listing).write_text("{}")

    with pytest.raises(DefinitionError, match="which lists the files that do"):
        read_landed_columns(str(tmp_path), [])


@given(
    holes=st.sets(st.integers(0, 30)),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    dropped=st.sets(st.integers(0, 5)),
    with_end=st.booleans(),
)
def test_names_never_show_a_record_that_is_in_no_file(
    tmp_path_factory: pytest.TempPathFactory, holes: set[int], sizes: list[int], dropped: set[int], with_end: bool
) -> None:
    records = iter(offset for offset in range(100) if offset not in holes)
    files = [[next(records) for _ in range(size)] for size in sizes]
    kept = [file for number, file in enumerate(files) if number not in dropped]
    if not kept:
        return
    place = tmp_path_factory.mktemp("copy")
    names = {f"t+0+{file[0]}{f'+{file[-1]}' if with_end else ''}.json": len(file) for file in kept}

    partition = read_partitions(write_files(place, names))[0]

    contained = {offset for file in kept for offset in file}
    lower = partition.gaps[0].start if partition.gaps else partition.next_offset
    expected = {offset for file in files for offset in file if partition.first <= offset < lower}
    assert expected <= contained
    assert partition.next_offset <= kept[-1][-1] + 1
    last_is_open = 0 if with_end else len(kept[-1])
    assert partition.open_records == last_is_open
    if not (holes & set(range(kept[0][0], kept[-1][-1])) or dropped):
        assert not partition.gaps
