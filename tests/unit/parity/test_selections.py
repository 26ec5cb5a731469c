"""Conditions that select only new rows for an append: for each input of a union or join, and each part of OR."""

import pytest

from cutover.parity.job import check_job

START = """
import sys
from pyspark.sql import functions as F
a, b, dim = spark.table("a"), spark.table("b"), spark.table("dim")
new = a.where(F.col("dt") == sys.argv[1])
today = dim.where(F.col("valid_on") == sys.argv[1])
"""
APPEND = '.write.mode("append").saveAsTable("o")'


def kinds(source: str) -> set[str]:
    return {str(finding.construct) for finding in check_job(START + source, "x.py")}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("new.union(b)", {"appended-again"}),
        ("b.unionByName(new)", {"appended-again"}),
        ("new.union(b.where(F.col('dt') == sys.argv[1]))", set()),
        ("new.union(b).where(F.col('dt') == sys.argv[1])", set()),
        ("new.union(spark.createDataFrame([(1,)], 'id int'))", set()),
        ("new.join(dim, 'id')", set()),
        ("new.join(dim, 'id', 'left')", set()),
        ("b.join(today, 'id', 'left')", {"appended-again"}),
        ("today.join(b, 'id', 'right')", {"appended-again"}),
        ("b.join(today, 'id', 'left_semi')", set()),
        ("b.join(today, 'id')", {"not-understood"}),
        ("a.where(F.col('ts') >= a.agg(F.min('ts')).first()[0])", {"appended-again"}),
        ("a.where(F.col('ts') >= new.agg(F.min('ts')).first()[0])", set()),
        ("a.where(F.col('ts') > spark.table('o').agg(F.max('ts')).first()[0])", set()),
        ("a.intersect(b)", {"appended-again"}),
        ("new.intersect(b)", set()),
        ("b.join(today, 'id', 'outer')", {"appended-again"}),
        ("a.where((F.col('dt') == sys.argv[1]) | (F.col('x') == 1))", {"appended-again"}),
        ("a.where(f\"dt = '{sys.argv[1]}' OR 1 = 1\")", {"appended-again"}),
        ("a.where(f\"dt = '{sys.argv[1]}' OR dt > '{sys.argv[2]}'\")", set()),
        ("a.where((F.col('dt') == sys.argv[1]) & (F.col('x') == 1))", set()),
        ("a.join(dim, (a.id == dim.id) & (a.dt == sys.argv[1]))", set()),
    ],
)
def test_each_input_must_select_new_rows(rows: str, expected: set[str]) -> None:
    assert kinds(rows + APPEND) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM a WHERE dt > (SELECT max(dt) FROM o) UNION ALL SELECT * FROM b", {"appended-again"}),
        ("SELECT * FROM a WHERE dt > (SELECT max(dt) FROM o) UNION ALL SELECT * FROM b WHERE dt > ${d}", set()),
        ("SELECT a.* FROM a LEFT JOIN dim ON a.id = dim.id AND dim.day = '${d}'", {"appended-again"}),
        ("SELECT a.* FROM a JOIN dim ON a.id = dim.id AND a.dt = '${d}'", set()),
        ("SELECT * FROM a WHERE dt = '${d}' OR x = 1", {"appended-again"}),
        ("SELECT * FROM a WHERE ts >= (SELECT min(ts) FROM a)", {"appended-again"}),
    ],
)
def test_each_input_of_a_statement_must_select_new_rows(query: str, expected: set[str]) -> None:
    assert kinds(f'spark.sql("""INSERT INTO o {query}""")') == expected
