"""Folders of other formats: their logs are followed, or they are refused by name; never all files at once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"k": [1, 2], "v": ["a", "b"]})


def write(path: Path, rows: pa.Table = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return path


def compare(left: Path, right: Path) -> Report:
    return compare_tables(DiffRequest(expected=str(left), actual=str(right), key=("k",)))


def list_file(path: Path, **changes: Any) -> dict[str, Any]:
    return {"path": path.as_uri(), "size": path.stat().st_size, "isDir": False, "action": "add", **changes}


def write_log(table: Path, name: str, *entries: dict[str, Any]) -> None:
    log = table / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    """Return a folder as Spark's file sink leaves it after a batch that failed once and was written again."""
    table = tmp_path / "sink"
    write(table / "part-0-failed.parquet")
    first = write(table / "day=1" / "part-0 a.parquet", ROWS.slice(0, 1))
    write_log(table, "0", list_file(first))
    write_log(table, "1", list_file(write(table / "day=2" / "part-0-b.parquet", ROWS.slice(1))))
    return table


def test_only_files_that_a_committed_batch_wrote_are_rows_of_sparks_sink(sink: Path, tmp_path: Path) -> None:
    write(tmp_path / "rows" / "day=1" / "a.parquet", ROWS.slice(0, 1))
    write(tmp_path / "rows" / "day=2" / "b.parquet", ROWS.slice(1))

    report = compare(sink, tmp_path / "rows")

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2)


def test_what_spark_wrote_is_read_by_its_log(spark: "SparkSession", tmp_path: Path) -> None:
    table, source = tmp_path / "written", tmp_path / "source"
    for number in range(3):
        write(source / f"{number}.parquet", pa.table({"k": [number], "v": ["a b"]}))
        stream = spark.readStream.schema("k bigint, v string").parquet(str(source)).writeStream.format("parquet")
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).partitionBy("v")
        stream.trigger(availableNow=True).start(str(table)).awaitTermination()
    listed = next((table / "v=a%20b").glob("*.parquet"), None) or next((table / "v=a b").glob("*.parquet"))
    write(listed.with_name("part-of-a-lost-batch.parquet"), pa.table({"k": [9]}))
    write(tmp_path / "rows.parquet", pa.table({"k": [0, 1, 2], "v": ["a b"] * 3}))

    report = compare(table, tmp_path / "rows.parquet")

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 3), report.finding.notes


def test_a_compacted_log_and_a_folder_that_was_moved_are_read(sink: Path, tmp_path: Path) -> None:
    old, new = (next((sink / f"day={n}").glob("*")) for n in (1, 2))
    write_log(sink, "1.compact", list_file(old), list_file(new))
    (sink / "_spark_metadata" / "0").unlink()
    (sink / "_spark_metadata" / "1").unlink()
    write_log(sink, "2", list_file(old, action="delete"))
    moved = sink.rename(tmp_path / "moved")
    write(tmp_path / "rows" / "day=2" / "b.parquet", ROWS.slice(1))

    assert compare(moved, tmp_path / "rows").finding.rows.compared == 1


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("a batch", "no entry of batch 0"),
        ("a file", "no file `part-0 a.parquet`"),
        ("bytes", "bytes of `part-0 a.parquet` instead of"),
        ("version", "of version 'v2'"),
        ("json", "which is no list of files"),
        ("all", "nothing that a committed batch wrote"),
    ],
)
def test_a_log_that_is_not_whole_is_refused(sink: Path, fault: str, problem: str) -> None:
    log, file = sink / "_spark_metadata", next((sink / "day=1").glob("*"))
    if fault in {"a batch", "all"}:
        (log / "0").unlink()
    if fault == "all":
        (log / "1").unlink()
    if fault == "a file":
        file.unlink()
    if fault == "bytes":
        file.write_bytes(file.read_bytes() + b"x")
    if fault == "version":
        (log / "0").write_text("v2\n")
    if fault == "json":
        (log / "0").write_text("v1\n{")

    with pytest.raises(LakeError, match=problem):
        compare(sink, sink)


@pytest.mark.quick("Hudi", "Iceberg")
@pytest.mark.parametrize(
    ("kind", "marks"),
    [
        ("Hudi", [".hoodie/hoodie.properties"]),
        ("Paimon", ["snapshot/LATEST", "manifest/m", "schema/schema-0"]),
        ("Spark streaming", ["_spark_metadata/0"]),
        ("Iceberg", ["metadata/v1.metadata.json"]),
        ("Iceberg", ["metadata/00000-a.gz.metadata.json"]),
    ],
)
@pytest.mark.parametrize("place", ["", "part", "part/*.parquet", "part/rows.parquet", ".."])
def test_tables_of_other_formats_are_refused_by_name(tmp_path: Path, kind: str, marks: list[str], place: str) -> None:
    table = tmp_path / "lake" / "table"
    write(table / "part" / "rows.parquet")
    for mark in marks:
        (table / mark).parent.mkdir(parents=True, exist_ok=True)
        (table / mark).write_text("{}")
    if kind in {"Iceberg", "Spark streaming"} and not place:
        with pytest.raises(CutoverError, match=r"Iceberg|sink"):  # it is opened, and is not whole
            compare(table, table)
        return

    with pytest.raises(DefinitionError, match=rf"got those of the {kind} table `{table}`"):
        compare(table / place, table / place)


@pytest.mark.parametrize(
    ("name", "start"), [("000000_0", b"ORC"), ("part-0", b"Obj\x01"), ("p.orc", b""), ("p.avro", b"")]
)
def test_a_folder_with_rows_in_another_format_is_not_read_in_part(tmp_path: Path, name: str, start: bytes) -> None:
    write(tmp_path / "t" / "a.parquet")
    (tmp_path / "t" / name).write_bytes(start + b"rows")

    with pytest.raises(DefinitionError, match=rf"got `{name}`, which is (ORC|Avro)"):
        compare(tmp_path / "t", tmp_path / "t")


def test_parquet_without_a_suffix_is_part_of_a_folder_and_notes_are_not(tmp_path: Path) -> None:
    write(tmp_path / "t" / "000000_0", ROWS.slice(0, 1))
    write(tmp_path / "t" / "1_data.0.parq", ROWS.slice(1))
    (tmp_path / "t" / "README.md").write_text("notes")
    (tmp_path / "t" / "_SUCCESS").write_text("")
    write(tmp_path / "rows.parquet")

    report = compare(tmp_path / "t", tmp_path / "rows.parquet")

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2)
