"""One type, three names: Spark's of a state, Arrow's of the table, DuckDB's of a fold."""

import pytest

from cutover.errors import DefinitionError
from cutover.lake.tables.schemas import map_arrow_type_to_duckdb, map_spark_type_to_arrow


@pytest.mark.parametrize(
    ("spark", "duckdb"),
    [
        ("decimal(38,2)", "DECIMAL(38,2)"),
        ("array<bigint>", "BIGINT[]"),
        ("struct<at:timestamp,value:decimal(9,2)>", 'STRUCT("at" TIMESTAMPTZ, "value" DECIMAL(9,2))'),
        ("array<struct<value:string,count:bigint>>", 'STRUCT("value" VARCHAR, "count" BIGINT)[]'),
    ],
)
def test_a_states_type_has_a_name_in_each_engine(spark: str, duckdb: str) -> None:
    assert map_arrow_type_to_duckdb(map_spark_type_to_arrow(spark)) == duckdb


def test_an_unsupported_state_type_is_rejected() -> None:
    with pytest.raises(DefinitionError, match="Type `void`: expected one of boolean"):
        map_spark_type_to_arrow("array<void>")
