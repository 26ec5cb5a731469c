"""Opening a dimension at one version, and rejecting one whose rows cannot be joined."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cutover.definition import Count, Fixed, Lookup, Pipeline, Topic
from cutover.errors import LakeError
from cutover.lake.dimensions import dimension
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

KINDS: Mapping[str, tuple[str, pa.DataType, Any, Any]] = {
    "c_text": ("string", pa.string(), "é", "é"),
    "c_int": ("int", pa.int32(), -1, -1),
    "c_long": ("bigint", pa.int64(), 2**62, 2**62),
    "c_yes": ("boolean", pa.bool_(), True, True),
    "c_real": ("double", pa.float64(), -0.0, 0.0),
    "c_cost": ("decimal(10,2)", pa.decimal128(10, 2), Decimal("1.50"), Decimal("1.50")),
    "c_day": ("date", pa.date32(), date(1969, 12, 31), date(1969, 12, 31)),
    "c_time": ("timestamp", pa.timestamp("us", "UTC"), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000),
}
LOOKUP = Lookup(table="ads", on={"ad": "id"}, columns={name: kind for name, (kind, *_) in KINDS.items()})
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, ad string", event_time="at"),
    lookups={"ads": LOOKUP},
    key=("c_text",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
COLUMNS = {name: (arrow, value) for name, (_, arrow, value, _) in KINDS.items()}


def write_dimension(
    settings: Settings, *, ids: tuple[str | None, ...] = ("a",), **changed_columns: tuple[pa.DataType, Any]
) -> None:
    columns: dict[str, pa.Array[Any]] = {"id": pa.array(ids, pa.string())}
    columns |= {n: pa.array([value] * len(ids), kind) for n, (kind, value) in {**COLUMNS, **changed_columns}.items()}
    write_deltalake(dimension.own_uri(settings, "ads"), pa.table(columns), mode="overwrite", schema_mode="overwrite")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_rows_of_a_version_are_unaffected_by_later_writes(settings: Settings) -> None:
    write_dimension(settings)
    lake = PipelineLake(settings, PIPELINE)
    first_version = dimension.open_dimension(lake, "ads")
    write_dimension(settings, ids=("a", "b"))

    assert dimension.plain(first_version) == {("a",): {name: plain for name, (*_, plain) in KINDS.items()}}
    assert [dimension.open_dimension(lake, "ads", v).size for v in (0, 1)] == [1, 2]
    assert dimension.open_dimension(lake, "ads").version == 1


def test_a_null_key_may_occur_twice_since_it_matches_nothing(settings: Settings) -> None:
    write_dimension(settings, ids=(None, None, "a"))

    assert dimension.open_dimension(PipelineLake(settings, PIPELINE), "ads").size == 3


def test_a_dimension_may_lie_anywhere(settings: Settings, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "elsewhere"), pa.table({"id": ["a"], "c": ["x"]}))
    lookup = Lookup(table=str(tmp_path / "elsewhere"), on={"ad": "id"}, columns={"c": "string"})

    opened = dimension.open_dimension(
        PipelineLake(settings, replace(PIPELINE, lookups={"ads": lookup}, key=("c",))), "ads"
    )

    assert dimension.plain(opened) == {("a",): {"c": "x"}}


UNFIT: Mapping[str, tuple[dict[str, Any], str]] = {
    "a key twice": ({"ids": ("a", "b", "a")}, "expected each key (id) once, got 1 key that occurs more than once"),
    "another type": ({"c_long": (pa.int32(), 1)}, "column `c_long`: expected bigint, got int.\nHint: nothing is cast"),
    "a time without a zone": ({"c_time": (pa.timestamp("us"), None)}, "got timestamp without a time zone"),
    "an endless double": ({"c_real": (pa.float64(), float("nan"))}, "column `c_real`: expected values in the range"),
    "a day in the year 9000": ({"c_day": (pa.date32(), date(9000, 1, 1))}, "column `c_day`: expected values in"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_invalid_dimension_is_rejected_with_the_expectation(settings: Settings, case: str) -> None:
    changes, expected = UNFIT[case]
    write_dimension(settings, **changes)

    with pytest.raises(LakeError) as caught:
        dimension.check_dimensions(PipelineLake(settings, PIPELINE))

    assert "Pipeline `p`, lookup `ads`, dimension" in str(caught.value)
    assert expected in str(caught.value)
    assert caught.value.runbook == "DimensionUnusable"


def test_a_column_that_is_missing_is_named_with_its_neighbour(settings: Settings) -> None:
    write_deltalake(dimension.own_uri(settings, "ads"), pa.table({"id": ["a"], "c_txt": ["x"]}))

    with pytest.raises(LakeError, match=r"expected a column `c_text`, got id, c_txt\.\nHint: did you mean `c_txt`"):
        dimension.check_dimensions(PipelineLake(settings, PIPELINE))


def test_a_missing_dimension_is_reported_with_the_command_to_load_it(settings: Settings) -> None:
    with pytest.raises(LakeError, match=r"expected a Delta table, found none\.\nHint: `cutover dimension load`"):
        dimension.check_dimensions(PipelineLake(settings, PIPELINE))


def test_a_version_with_missing_files_is_rejected(settings: Settings) -> None:
    write_dimension(settings)
    lake = PipelineLake(settings, PIPELINE)
    first_version = dimension.open_dimension(lake, "ads")
    for file in first_version.table.file_uris():
        Path(file.removeprefix("file://")).unlink()

    with pytest.raises(LakeError, match="is listed and not there"):
        dimension.open_dimension(lake, "ads", 0)
