"""Files that are not jobs or only partly understood: unread code is never reported as sound."""

import json
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.parity.job import check_job, check_script


@pytest.mark.parametrize(
    "text", ["this is not sql", "hello world;", "SELEC * FORM x;", "x = 1", "insert a;", "TABLE_OF(x)", "'rows'"]
)
def test_a_bare_expression_is_no_sql(text: str) -> None:
    (finding,) = [finding for finding in check_script(text, "x.sql") if "not a SQL statement" in finding.subject]

    assert (str(finding.construct), finding.line) == ("not-understood", 1)


@pytest.mark.parametrize("text", ["VALUES (1, 2)", "(SELECT 1)", "USE mart; SET a.b = c", "CREATE TABLE t (a INT)"])
def test_statements_without_rows_are_sql(text: str) -> None:
    assert check_script(text, "x.sql") == ()


def test_an_unreadable_file_hides_no_finding_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"broken.py": "def (", "found.sql": "SELECT rand() FROM t", "sound.sql": "SELECT a FROM t"}
    broken, flagged, sound = (tmp_path / name for name in texts)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert app.main(["parity", str(broken), str(flagged), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(Path(row["file"]).name, row["construct"]) for row in rows] == [
        ("found.sql", "random"),
        ("broken.py", "not-understood"),
    ]
    assert "expected Python" in rows[1]["what"]
    assert app.main(["parity", str(broken), str(sound)]) == 2
    assert app.main(["parity", str(tmp_path / "none.sql"), str(sound)]) == 2
    assert app.main(["parity", str(sound)]) == 0


@pytest.mark.parametrize(
    "source",
    [
        "with open('a.json') as f:\n    print(f.read())",
        "def copy(f):\n    f.write('x')",
        "from sqlalchemy import func\nprint(func.count())",
        "def run(df: 'DataFrame'):\n    print('nothing')",
        "import pandas as pd\npd.read_csv('a.csv')",
    ],
)
def test_a_file_without_spark_is_not_understood(source: str) -> None:
    (finding,) = check_job(source, "x.py")

    assert (str(finding.construct), finding.subject.partition(":")[0]) == ("not-understood", "the whole file")


def test_a_name_that_may_be_none_is_followed_otherwise() -> None:
    source = """
def connect():
    session = None
    try:
        session = SparkSession.builder.getOrCreate()
    except Exception as error:
        print(error)
    return session
def read(session):
    rows = None
    try:
        rows = session.readStream.format("kafka").option("subscribe", "t").load()
    except Exception as error:
        print(error)
    return rows
def run():
    session = connect()
    if session is not None:
        read(session).writeStream.option("checkpointLocation", "/c").toTable("t")
from pyspark.sql import SparkSession
run()
"""
    assert {str(finding.construct) for finding in check_job(source, "x.py")} == {"offsets"}


def test_the_java_side_of_a_dataframe_is_the_dataframe() -> None:
    job = check_job("import shop\nshop.send(spark.table('a')._jdf)", "x.py")

    assert [finding.subject for finding in job] == ["shop.send: its effect on a DataFrame"]
