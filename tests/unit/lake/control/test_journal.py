"""A control table is one row type: its schema, its rows and its place among the other tables follow from it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, Literal

import pyarrow as pa
import pytest

from cutover.errors import LakeError
from cutover.lake import journal
from cutover.lake.journal import CREATED_LAST, Journal, JournalRow, list_row_types, make_row_schema, read_all
from cutover.lake.journal_rows import GateEvent
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import TIMESTAMP
from cutover.pipeline_lake import control_uri
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Color(StrEnum):
    """A column with few values."""

    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(JournalRow):
    """A row with a column of each kind."""

    TABLE: ClassVar[str] = "samples"

    at: datetime
    color: Color
    side: Literal["left", "right"]
    names: tuple[str, ...]
    share: float
    is_valid: bool
    note: str | None = None


SAMPLE = Sample(pipeline="p", at=NOW, color=Color.RED, side="left", names=("a", "b"), share=0.5, is_valid=True)


@pytest.fixture
def _with_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {Sample.TABLE: Sample, **list_row_types()}
    monkeypatch.setattr(journal, "list_row_types", lambda: types)


def test_the_schema_of_a_table_follows_from_its_row_type() -> None:
    columns: dict[str, pa.DataType] = {
        "pipeline": pa.string(),
        "sequence": pa.int64(),
        "at": TIMESTAMP,
        "color": pa.string(),
        "side": pa.string(),
        "names": pa.list_(pa.string()),
        "share": pa.float64(),
        "is_valid": pa.bool_(),
        "note": pa.string(),
    }
    assert make_row_schema(Sample) == pa.schema(columns)


@pytest.mark.usefixtures("_with_samples")
def test_rows_of_a_new_row_type_round_trip(settings: Settings) -> None:
    samples = Journal(settings, "p", Sample)

    assert samples.append(SAMPLE, SAMPLE) == 0
    assert samples.append(SAMPLE) == 1

    rows = samples.read()
    assert [row.sequence for row in rows] == [0, 0, 1]
    assert (rows[0].at, rows[0].color, rows[0].names, rows[0].note) == (NOW, Color.RED, ("a", "b"), None)
    assert read_all(settings, Sample) == rows
    assert Journal(settings, "q", Sample).read() == []


def test_the_tables_of_all_packages_are_listed_and_versions_is_created_last() -> None:
    tables = list(list_row_types())

    assert tables[-1] == CREATED_LAST
    assert {"gate", "reconciliations", "differences", "audits"} <= set(tables)
    assert len(tables) == 15


@pytest.mark.parametrize(("column", "value"), [("stage", None), ("at", None)])
def test_a_row_without_a_value_that_its_type_requires_is_an_error_of_the_table(
    settings: Settings, column: str, value: object
) -> None:
    Journal(settings, "p", GateEvent).append(make_row(GateEvent))
    table = delta.open_table(control_uri(settings, "gate"))
    row = {"pipeline": "p", "sequence": 0, "at": NOW, "stage": "LAMBDA", "evidence": json.dumps({})} | {column: value}
    commits.append(table, pa.Table.from_pylist([row], schema=make_row_schema(GateEvent)))

    with pytest.raises(LakeError, match="Table `gate`: expected rows that Cutover wrote") as refused:
        Journal(settings, "p", GateEvent).read()

    assert refused.value.runbook == "ForeignWrite"
