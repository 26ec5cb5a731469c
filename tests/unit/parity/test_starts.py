"""Start offsets of a stream, and checkpoints that survive a restart."""

import pytest

from cutover.parity.job import check_job, check_script

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'


def find(source: str) -> list[tuple[str, int]]:
    return [(str(finding.construct), finding.line) for finding in check_job(source, "x.py")]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ('format("kinesis").option("streamName", "x")', ["offsets"]),
        ('format("kinesis").option("initialPosition", "latest")', ["offsets"]),
        ('format("kinesis").option("initialPosition", "trim_horizon")', []),
        ('format("kinesis").option("initialPosition", START)', ["not-understood"]),
        ('format("aws-kinesis").option("kinesis.startingPosition", "TRIM_HORIZON")', []),
        ('format("eventhubs").option("eventhubs.connectionString", "x")', ["offsets"]),
        ("format('eventhubs').option('eventhubs.startingPosition', '{\"offset\": \"@latest\"}')", ["offsets"]),
        ("format('eventhubs').option('eventhubs.startingPosition', '{\"offset\": \"-1\", \"seqNo\": -1}')", []),
        ('format("cloudFiles").option("cloudFiles.includeExistingFiles", "false")', ["offsets"]),
        ('format("cloudFiles").option("cloudFiles.includeExistingFiles", "true")', []),
    ],
)
def test_a_log_is_read_from_its_end_by_default(read: str, expected: list[str]) -> None:
    sink = '.load().writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'

    assert [construct for construct, _ in find(f"spark.readStream.{read}{sink}")] == expected


@pytest.mark.parametrize("table", ["settings.items()", "dict(line.split('=') for line in open('x')).items()"])
def test_options_from_elsewhere_count_as_set(table: str) -> None:
    source = f'r = spark.readStream.format("kafka")\nfor k, v in {table}:\n    r = r.option(k, v)\n'

    assert find(f'{source}r.load().writeStream.option("checkpointLocation", "/c").start("/o")') == [
        ("not-understood", 4)
    ]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("'/c'", []),
        ("f'{BASE}/c'", []),
        ("'/c-' + str(uuid.uuid4())", [("checkpoint", 2)]),
        ("f'/c/{uuid.uuid4().hex}'", [("checkpoint", 2)]),
        ("tempfile.mkdtemp()", [("checkpoint", 2)]),
        ("f'/c/{datetime.now():%Y%m%d}'", [("checkpoint", 2)]),
    ],
)
def test_a_checkpoint_that_changes_at_every_start_is_reported(place: str, expected: list[tuple[str, int]]) -> None:
    source = "import uuid, tempfile; from datetime import datetime\n"

    assert find(f'{source}{READ}.writeStream.option("checkpointLocation", {place}).start("/o")') == expected


def test_the_session_has_a_checkpoint_for_queries_with_names() -> None:
    setting = 'spark.conf.set("spark.sql.streaming.checkpointLocation", "/base")'
    named_query, unnamed = f'{READ}.writeStream.queryName("q").start("/o")', f'{READ}.writeStream.start("/o")'

    assert find(f"{setting}\n{named_query}") == []
    assert find(f"{setting}\n{unnamed}") == [("checkpoint", 2)]
    assert find(f"{named_query}\n{setting}") == [("checkpoint", 1)]


def test_a_table_has_its_schema_and_a_date_its_line() -> None:
    script = check_script("SELECT\n  a,\n  date(at)\nFROM t;\nINSERT INTO x SELECT a FROM raw.ev", "x.sql")

    assert [(str(finding.construct), finding.line, finding.subject) for finding in script] == [
        ("time-zone", 3, "date"),
        ("appended-again", 5, "append of all of raw.ev"),
    ]
    assert check_script("SELECT CAST('2024-01-01' AS DATE), DATE '2024-01-01', date('2024-01-01')", "x.sql") == ()


def test_a_file_without_spark_names_the_call_that_was_not_followed() -> None:
    (finding,) = check_job("import shop\n\nshop.run('daily')", "x.py")

    assert finding.line == 3
    assert "shop.run" in finding.subject


def test_an_overwriting_batch_loses_unchanged_rows() -> None:
    source = (
        "def write(batch, number):\n    batch.write.mode('overwrite').saveAsTable('m')\n"
        f"{READ}.groupBy('k').count().writeStream.outputMode('update').foreachBatch(write)"
        ".option('checkpointLocation', '/c').start()"
    )
    (finding,) = check_job(source, "x.py")

    assert str(finding.construct) == "output-mode"
    assert "foreachBatch that overwrites" in finding.subject
