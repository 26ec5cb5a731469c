"""Property: a comparison with kept digests has the same result as one without them."""

import random
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.reconcile.external import side_digests
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.support.history.reports import change_report

SCHEMA: dict[str, pa.DataType] = {
    "time": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "text": pa.string(),
    "whole": pa.int64(),
    "none": pa.int64(),
}
WINDOWS: dict[str, Any] = {
    "time": lambda n: datetime(1969, 12, 31, 23, tzinfo=UTC) + timedelta(hours=n, microseconds=n),
    "date": lambda n: date(2024, 2, 27) + timedelta(days=n),
    "text": lambda n: ["", "\n'\"", "\x1b[31m", "NULL", "é\N{COMBINING ACUTE ACCENT}", "a\x00b"][n % 6],
    "whole": lambda n: n - 3,
    "none": lambda n: n,
}


def row(draw: random.Random, kind: str) -> dict[str, Any]:
    return {
        "w": None if draw.random() < 0.05 else WINDOWS[kind](draw.randrange(6)),
        "k": draw.choice([None, "", "a", "b", "'", "\n"]) if draw.random() < 0.2 else f"k{draw.randrange(40)}",
        "v": draw.choice([None, 0.0, -0.0, float("nan"), 1.5, draw.random()]),
        "d": draw.randrange(-(10**20), 10**20) if draw.random() < 0.2 else draw.randrange(100),
    }


def write(file: Path, rows: list[dict[str, Any]], kind: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fields: dict[str, pa.DataType] = {"w": SCHEMA[kind], "k": pa.string(), "v": pa.float64(), "d": pa.decimal128(38, 0)}
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(fields.items()))), file)


def change(draw: random.Random, folder: Path, files: dict[str, list[dict[str, Any]]], kind: str) -> None:
    """Write, empty, copy or remove a file of one side, or change a row in it."""
    step, name = draw.randrange(5), draw.choice([*files])
    if step == 0:
        files[f"{len(files)}{draw.randrange(99)}.parquet"] = [row(draw, kind) for _ in range(draw.randrange(30))]
    elif step == 1 and len(files) > 1:
        del files[name]
    elif step == 2:
        files[f"copy{draw.randrange(99)}.parquet"] = files[name]
    elif step == 3 and files[name]:
        at = draw.randrange(len(files[name]))
        files[name] = [*files[name][:at], row(draw, kind), *files[name][at + 1 :]]
    else:
        draw.shuffle(files[name])
    shutil.rmtree(folder, ignore_errors=True)
    for file, rows in files.items():
        write(folder / file, rows, kind)


def without_digest_notes(result: Report) -> Report:
    notes = tuple(note for note in result.finding.notes if not note.startswith("Digests of"))
    return change_report(result, run_id="", at="", seconds=0.0, notes=notes)


def sort_chunks(patch: pytest.MonkeyPatch, rows: int) -> None:
    """Sort the hashes of `rows` rows together, and of all rows that windows hold together."""
    for name, size in (("FEWEST", 0), ("CHUNK", rows), ("LARGEST_CHUNK", 10_000)):
        patch.setattr(side_digests, name, size)


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(5))
def test_keys_are_counted_alike_in_pieces_of_any_size(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare files with distinct windows, files that share some, and one that exists twice."""
    draw, folder = random.Random(seed), tmp_path / "table"  # noqa: S311 -- the same draws each time
    for n in range(8):
        hours = [0, 1, 2] if n % 3 else [0, 1, 2, 3]  # the last one begins the next file
        starts = [WINDOWS["time"](3 * n + draw.choice(hours)) for _ in range(60)]
        starts[:2] = [None if n in {2, 3} else start for start in starts[:2]]
        rows = [row(draw, "time") | {"w": start, "k": f"k{draw.randrange(30)}"} for start in starts]
        write(folder / f"{draw.randrange(10**6)}-{n}.parquet", rows, "time")
    shutil.copy(next(folder.iterdir()), folder / "again.parquet")
    request = DiffRequest(expected=str(folder), actual=str(folder), key=("w", "k"), window="w")
    usual = without_digest_notes(compare_tables(request))
    chunks = Mock(wraps=side_digests._sort_chunk)
    monkeypatch.setattr(side_digests, "_sort_chunk", chunks)

    for size in (1, 100, 1_000):
        sort_chunks(monkeypatch, size)
        assert without_digest_notes(compare_tables(request)) == usual
    assert any("The key is not unique on the expected side" in note for note in usual.finding.notes)
    assert chunks.call_count > 2 * 3


@pytest.mark.parametrize("kind", WINDOWS)
def test_kept_digests_change_no_result(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_digests, "ROWS_A_GROUP", 1)  # many groups, of few rows
    draw = random.Random(f"kept {kind}")  # noqa: S311 -- the same draws each time
    left = {f"{n}.parquet": [row(draw, kind) for _ in range(60)] for n in range(3)}
    right = {name: list(reversed(rows)) for name, rows in left.items()}
    window = None if kind == "none" else "w"
    request = DiffRequest(
        expected=str(tmp_path / "left"), actual=str(tmp_path / "right"), key=("w", "k"), window=window
    )
    settings = Settings(home=tmp_path / "home")
    verdicts = set()
    for turn in range(10):
        for name, files in (("left", left), ("right", right)):
            change(draw, tmp_path / name, files, kind)
        if not turn % 4:  # both alike again, in another order
            shutil.rmtree(tmp_path / "right")
            right = {name: list(reversed(rows)) for name, rows in left.items()}
            for file, rows in right.items():
                write(tmp_path / "right" / file, rows, kind)

        with monkeypatch.context() as patch:
            sort_chunks(patch, draw.choice([1, 40, 1_000]))
            tables = compare_tables(request, settings)

        assert without_digest_notes(tables) == without_digest_notes(compare_tables(request))
        verdicts.add(tables.finding.verdict)
    assert len(verdicts) == 2
