"""Batches that append: rows that another run would append again, and rows that it would not."""

import pytest

from cutover.parity.job import check_job, check_script


def kinds(source: str) -> list[str]:
    return [str(finding.construct) for finding in check_job(source, "x.py")]


@pytest.mark.parametrize(
    ("condition", "expected"),
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
def test_a_condition_is_new_in_the_next_run_only_if_it_moves(condition: str, expected: list[str]) -> None:
    source = "import sys\nFIXED = '2024-01-01'\nlast = spark.table('m').agg(F.max('at')).first()[0]\n"
    rows = f"spark.table('ev').where({condition})"

    assert kinds(f"{source}{rows}.write.mode('append').saveAsTable('m')") == expected


def test_a_loop_over_written_days_appends_the_same_days_again() -> None:
    source = "for day in ['2024-01-01', '2024-01-02']:\n    "

    assert kinds(f"{source}spark.table('e').where(f\"dt = '{{day}}'\").write.mode('append').saveAsTable('m')") == [
        "appended-again"
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("f\"INSERT INTO m SELECT * FROM ev WHERE dt = '{sys.argv[1]}'\"", []),
        ("\"INSERT INTO m SELECT * FROM ev WHERE dt = '{}'\".format(sys.argv[1])", []),
        ("'INSERT INTO m SELECT * FROM ev WHERE dt = :d', args={'d': sys.argv[1]}", []),
        ("f\"INSERT INTO m SELECT * FROM ev WHERE dt = '{DAY}'\"", ["appended-again"]),
    ],
)
def test_a_statement_with_a_parameter_moves(statement: str, expected: list[str]) -> None:
    assert kinds(f"import sys\nDAY = '2024-01-01'\nspark.sql({statement})") == expected


@pytest.mark.parametrize(
    ("text", "descriptions"),
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
def test_sql_that_appends_existing_rows_is_found(text: str, descriptions: list[str]) -> None:
    assert [finding.subject for finding in check_script(text, "x.sql")] == descriptions


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("mode('overwrite').insertInto('m')", []),
        ("mode('overwrite').partitionBy('dt').insertInto('m')", []),
        ("mode('append').insertInto('m')", ["appended-again"]),
        ("mode('overwrite').insertInto('m', overwrite=False)", ["appended-again"]),
        ("mode(MODE).insertInto('m')", ["not-understood"]),
    ],
)
def test_insert_into_keeps_the_mode_of_its_writer(write: str, expected: list[str]) -> None:
    assert kinds(f"spark.table('ev').write.{write}") == expected


@pytest.mark.parametrize(
    "path",
    ["f'/in/dt={datetime.now():%Y-%m-%d}'", "'/in/' + datetime.now().strftime('%d')", "'/in/%s' % datetime.now()"],
)
def test_a_path_by_the_clock_of_the_driver_is_found(path: str) -> None:
    source = f"from datetime import datetime\nspark.read.parquet({path}).write.mode('append').parquet('/o')"

    assert [(str(finding.construct), finding.line) for finding in check_job(source, "x.py")] == [("clock", 2)]


APPEND = "spark.table('ev').write.mode('append').saveAsTable('m')"


@pytest.mark.parametrize(
    "source",
    [
        "spark.sql('TRUNCATE TABLE m')\nAPPEND",
        "spark.sql('USE db')\nspark.sql('DELETE FROM db.m')\nAPPEND",
        "spark.catalog.setCurrentDatabase('db')\nspark.sql('DELETE FROM c.db.m')\nAPPEND",
        "spark.sql('DELETE FROM m WHERE true')\nAPPEND",
        "spark.sql('DROP TABLE IF EXISTS m')\nAPPEND",
        "spark.sql('CREATE OR REPLACE TABLE m (a INT)')\nAPPEND",
        "spark.table('a').write.mode('overwrite').saveAsTable('m')\nAPPEND",
        "spark.table('a').write.saveAsTable('m')\nAPPEND",
        "if spark.catalog.tableExists('m'):\n    spark.sql('TRUNCATE TABLE m')\nAPPEND",
        "def clear(table):\n    spark.sql(f'TRUNCATE TABLE {table}')\nclear('m')\nAPPEND",
        "spark.sql('TRUNCATE TABLE m')\nfor s in ['a', 'b']:\n    spark.table(s).write.mode('append').saveAsTable('m')",
        (
            "for n, s in enumerate(['a', 'b']):\n"
            "    spark.table(s).write.mode('overwrite' if n == 0 else 'append').saveAsTable('m')"
        ),
        (
            "import sys\ntable = f'{sys.argv[1]}.m'\nspark.sql(f'TRUNCATE TABLE {table}')\n"
            "spark.table('ev').write.mode('append').saveAsTable(table)"
        ),
        "spark.sql('TRUNCATE TABLE c.db.m')\nspark.sql('INSERT INTO c.db.m SELECT * FROM ev')",
        "spark.sql('TRUNCATE TABLE c.db.m')\nspark.table('ev').writeTo('c.db.m').append()",
        (
            "spark.sql(\"ALTER TABLE m DROP IF EXISTS PARTITION (dt = '2024-01-01')\")\n"
            "spark.table('ev').where(\"dt = '2024-01-01'\").write.mode('append').saveAsTable('m')"
        ),
        "spark.table('ev').limit(0).write.mode('overwrite').saveAsTable('m')\nAPPEND",
        "spark.sql('DELETE FROM delta.`/m`')\nspark.table('ev').write.format('delta').mode('append').save('/m/')",
        (
            "from delta.tables import DeltaTable\nDeltaTable.forPath(spark, '/m').delete()\n"
            "spark.table('ev').write.format('delta').mode('append').save('/m')"
        ),
        "import shutil\nshutil.rmtree('/m')\nspark.table('ev').write.mode('append').parquet('/m')",
        "dbutils.fs.rm('/m', True)\nspark.table('ev').write.mode('append').option('path', '/m').save()",
        (
            "import psycopg2\ncursor = psycopg2.connect('x').cursor()\ncursor.execute('TRUNCATE TABLE m')\n"
            "spark.table('ev').write.jdbc('jdbc:x', 'm', 'append')"
        ),
        (
            "spark.sql(\"DELETE FROM m WHERE dt >= '2024-01-01'\")\n"
            "spark.table('ev').where(\"dt >= '2024-01-01'\").write.mode('append').saveAsTable('m')"
        ),
    ],
)
def test_rows_deleted_first_are_not_appended_again(source: str) -> None:
    assert kinds(source.replace("APPEND", APPEND)) == []


@pytest.mark.parametrize(
    "source",
    [
        "spark.sql('TRUNCATE TABLE other')\nAPPEND",
        f"{APPEND}\nspark.sql('TRUNCATE TABLE m')",
        "import sys\nif sys.argv[1]:\n    spark.sql('TRUNCATE TABLE m')\nAPPEND",
        "spark.sql('CREATE TABLE IF NOT EXISTS m (a INT)')\nAPPEND",
        "spark.table('a').write.mode('overwrite').saveAsTable('n')\nAPPEND",
        "spark.sql('TRUNCATE TABLE m')\nspark.table('ev').write.mode('append').saveAsTable('db.n')",
    ],
)
def test_rows_deleted_by_other_steps_are_appended_again(source: str) -> None:
    assert kinds(source.replace("APPEND", APPEND)) == ["appended-again"]


@pytest.mark.parametrize(
    "source",
    [
        "spark.sql(\"DELETE FROM m WHERE dt >= '2024-01-01'\")\nAPPEND",
        "spark.sql('TRUNCATE TABLE staging.m')\nAPPEND",
        "try:\n    spark.sql('TRUNCATE TABLE m')\nexcept Exception:\n    print('new')\nAPPEND",
        "def clear():\n    spark.sql('TRUNCATE TABLE m')\ndef load():\n    APPEND",
        (
            "spark.conf.set('spark.sql.sources.partitionOverwriteMode', 'dynamic')\n"
            "spark.table('a').write.mode('overwrite').insertInto('m')\nAPPEND"
        ),
    ],
)
def test_a_deletion_that_may_miss_rows_is_named(source: str) -> None:
    (finding,) = check_job(source.replace("APPEND", APPEND), "x.py")

    assert str(finding.construct) == "not-understood"
    assert "whether it removes what line" in finding.subject


def test_a_script_that_empties_its_table_first_is_sound() -> None:
    assert check_script("TRUNCATE TABLE b;\nINSERT INTO b SELECT * FROM ev", "x.sql") == ()
    assert [finding.line for finding in check_script("INSERT INTO b SELECT * FROM ev;\nTRUNCATE TABLE b", "x.sql")] == [
        1
    ]


@pytest.mark.parametrize("rows", ["spark.range(5)", "spark.readStream.table('a')"])
def test_a_view_hides_no_table_of_a_database(rows: str) -> None:
    view, append = f"{rows}.createOrReplaceTempView('ev')\n", "spark.sql('INSERT INTO m SELECT * FROM dw.ev')"

    assert kinds(view + append) == ["appended-again"]
    assert kinds("spark.range(5).createOrReplaceTempView('ev')\nspark.sql('INSERT INTO m SELECT * FROM ev')") == []


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("format('kafka').option('startingOffsets', '{\"t\": {\"0\": 5}}').load()", ["appended-again"]),
        (
            "format('delta').option('readChangeFeed', 'true').option('startingVersion', 3).load('/a')",
            ["appended-again"],
        ),
        ("format('delta').option('startingVersion', sys.argv[1]).load('/a')", []),
        ("format('jdbc').option('query', 'SELECT * FROM t WHERE dt = 1').load()", ["appended-again"]),
        ("format('jdbc').option('query', 'SELECT * FROM t WHERE dt = current_date').load()", []),
        ("format('jdbc').option('dbtable', '(SELECT * FROM t) x').load()", ["appended-again"]),
        ("format('jdbc').option('dbtable', '(SELECT * FROM t WHERE id > (SELECT max(id) FROM o)) x').load()", []),
    ],
)
def test_a_constant_range_is_read_again(read: str, expected: list[str]) -> None:
    assert kinds(f"import sys\nspark.read.{read}.write.mode('append').saveAsTable('o')") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if not spark.catalog.tableExists('m'):\n    APPEND", []),
        ("exists = spark.catalog.tableExists('m')\nif not exists:\n    APPEND", []),
        ("if spark.catalog.tableExists('m'):\n    APPEND", ["appended-again"]),
        ("if not spark.catalog.tableExists('other'):\n    APPEND", ["appended-again"]),
        ("import os\nif not os.path.exists('/lock'):\n    APPEND", ["appended-again"]),
        ("import os\nif os.path.exists('/lock'):\n    spark.sql('TRUNCATE TABLE m')\nAPPEND", ["appended-again"]),
        (
            (
                "ev = spark.table('ev')\nif spark.catalog.tableExists('m'):\n"
                "    ev = ev.where(F.col('at') > spark.table('m').agg(F.max('at')).first()[0])\n"
                "ev.write.mode('append').saveAsTable('m')"
            ),
            [],
        ),
        (
            (
                "import sys\nev = spark.table('ev')\nif sys.argv[1]:\n    ev = ev.where(F.col('at') > sys.argv[1])\n"
                "ev.write.mode('append').saveAsTable('m')"
            ),
            ["not-understood"],
        ),
    ],
)
def test_the_first_append_to_a_missing_table_is_sound(source: str, expected: list[str]) -> None:
    assert kinds(source.replace("APPEND", APPEND)) == expected


def test_an_update_by_its_own_column_is_named() -> None:
    assert kinds("spark.sql('UPDATE m SET n = n + 1')") == ["not-understood"]
    assert kinds("spark.sql('UPDATE m SET n = 0')") == []


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("for row in rows:\n    cursor.execute('INSERT INTO t VALUES (%s)', (row[0],))", ["not-understood"]),
        ("cursor.executemany('INSERT INTO t VALUES (%s)', rows)", ["not-understood"]),
        ("requests.post('http://x', json=rows)", ["not-understood"]),
        ("print(rows)", []),
        ("spark.table('b').where(f'id > {rows[0]}').show()", []),
    ],
)
def test_rows_that_a_batch_collects_are_followed_to_their_client(use: str, expected: list[str]) -> None:
    start = "import psycopg2, requests\ncursor = psycopg2.connect('x').cursor()\n"

    assert kinds(f"{start}rows = spark.table('a').groupBy('k').count().collect()\n{use}") == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("spark.table('ev').join(spark.table('m'), 'id', 'left_anti')", []),
        ("spark.table('ev').exceptAll(spark.table('m'))", []),
        ("spark.table('ev').join(spark.table('m'), 'id', 'left').where(F.col('m.id').isNull())", []),
        ("spark.table('ev').join(spark.table('m'), 'id', 'left').where('m.id IS NULL')", []),
        ("spark.sql('SELECT * FROM ev EXCEPT SELECT * FROM m')", []),
        ("spark.sql('SELECT ev.* FROM ev LEFT JOIN m ON ev.id = m.id WHERE m.id IS NULL')", []),
        ("spark.table('ev').join(spark.table('testers'), 'id', 'left_anti')", ["not-understood"]),
        ("spark.table('ev').join(spark.table('m'), 'id', 'left')", ["appended-again"]),
        ("spark.table('ev').where('id IS NULL')", ["appended-again"]),
    ],
)
def test_anti_joined_rows_are_not_appended_again(rows: str, expected: list[str]) -> None:
    source = "from pyspark.sql import functions as F\n"

    assert kinds(f"{source}{rows}.write.mode('append').saveAsTable('m')") == expected
