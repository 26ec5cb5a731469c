"""A batch that appends: what another run would read again, and what it would not."""

import pytest

from cutover.parity.job import check_job
from cutover.parity.script import check_script


def kinds(source: str) -> list[str]:
    return [str(one.construct) for one in check_job(source, "x.py")]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("\"dt >= '2024-01-01'\"", ["appended-again"]),
        ("F.col('dt') >= '2024-01-01'", ["appended-again"]),
        ("F.col('dt').between('2024-01-01', '2024-01-31')", ["appended-again"]),
        ("f\"dt = '{FIXED}'\"", ["appended-again"]),
        ("F.col('dt') == FIXED", ["appended-again"]),
        ("f\"dt = '{sys.argv[1]}'\"", []),
        ("F.col('dt') == sys.argv[1]", []),
        ("\"dt = '{}'\".format(sys.argv[1])", []),
        ("\"dt = '%s'\" % sys.argv[1]", []),
        ("\"dt = '%s'\" % FIXED", ["appended-again"]),
        ("\"dt = '${day}'\"", []),
        ("F.col('at') > last", []),
    ],
)
def test_a_condition_is_new_in_the_next_run_only_if_it_moves(condition: str, found: list[str]) -> None:
    source = "import sys\nFIXED = '2024-01-01'\nlast = spark.table('m').agg(F.max('at')).first()[0]\n"
    rows = f"spark.table('ev').where({condition})"

    assert kinds(f"{source}{rows}.write.mode('append').saveAsTable('m')") == found


def test_a_loop_over_written_days_appends_the_same_days_again() -> None:
    source = "for day in ['2024-01-01', '2024-01-02']:\n    "

    assert kinds(f"{source}spark.table('e').where(f\"dt = '{{day}}'\").write.mode('append').saveAsTable('m')") == [
        "appended-again"
    ]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("f\"INSERT INTO m SELECT * FROM ev WHERE dt = '{sys.argv[1]}'\"", []),
        ("\"INSERT INTO m SELECT * FROM ev WHERE dt = '{}'\".format(sys.argv[1])", []),
        ("'INSERT INTO m SELECT * FROM ev WHERE dt = :d', args={'d': sys.argv[1]}", []),
        ("f\"INSERT INTO m SELECT * FROM ev WHERE dt = '{DAY}'\"", ["appended-again"]),
    ],
)
def test_a_statement_with_a_parameter_moves(statement: str, found: list[str]) -> None:
    assert kinds(f"import sys\nDAY = '2024-01-01'\nspark.sql({statement})") == found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("INSERT INTO b TABLE raw.ev", ["append of all of raw.ev"]),
        ("FROM ev INSERT INTO b SELECT *", ["append of all of ev"]),
        ("FROM ev INSERT INTO b SELECT * WHERE dt = '${day}'", []),
        ("INSERT INTO b SELECT * FROM ev WHERE dt > '2024-01-01' AND dt <= '2024-01-02'", ["append of all of ev"]),
        ("INSERT INTO b SELECT * FROM ev WHERE dt = '${day}'", []),
        ("INSERT INTO b SELECT * FROM ev WHERE dt = ${day}", []),
        ("INSERT INTO b SELECT * FROM ev WHERE dt = '{{ ds }}'", []),
        ("INSERT INTO b SELECT * FROM ev WHERE at > (SELECT max(at) FROM b)", []),
    ],
)
def test_sql_that_appends_what_is_there_already_is_found(text: str, what: list[str]) -> None:
    assert [one.what for one in check_script(text, "x.sql")] == what


@pytest.mark.parametrize(
    ("write", "found"),
    [
        ("mode('overwrite').insertInto('m')", []),
        ("mode('overwrite').partitionBy('dt').insertInto('m')", []),
        ("mode('append').insertInto('m')", ["appended-again"]),
        ("mode('overwrite').insertInto('m', overwrite=False)", ["appended-again"]),
        ("mode(MODE).insertInto('m')", ["not-understood"]),
    ],
)
def test_insert_into_keeps_the_mode_of_its_writer(write: str, found: list[str]) -> None:
    assert kinds(f"spark.table('ev').write.{write}") == found


@pytest.mark.parametrize(
    "path",
    ["f'/in/dt={datetime.now():%Y-%m-%d}'", "'/in/' + datetime.now().strftime('%d')", "'/in/%s' % datetime.now()"],
)
def test_a_path_by_the_clock_of_the_driver_is_found(path: str) -> None:
    source = f"from datetime import datetime\nspark.read.parquet({path}).write.mode('append').parquet('/o')"

    assert [(str(one.construct), one.line) for one in check_job(source, "x.py")] == [("clock", 2)]
