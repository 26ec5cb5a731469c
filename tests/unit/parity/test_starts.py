"""Where a stream begins, and whether it finds its place again."""

import pytest

from cutover.parity.job import check_job
from cutover.parity.script import check_script

READ = 'spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()'


def find(source: str) -> list[tuple[str, int]]:
    return [(str(one.construct), one.line) for one in check_job(source, "x.py")]


@pytest.mark.parametrize(
    ("read", "found"),
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
def test_a_log_is_read_from_its_end_where_nothing_else_is_said(read: str, found: list[str]) -> None:
    sink = '.load().writeStream.format("delta").option("checkpointLocation", "/c").start("/o")'

    assert [construct for construct, _ in find(f"spark.readStream.{read}{sink}")] == found


@pytest.mark.parametrize("table", ["settings.items()", "dict(line.split('=') for line in open('x')).items()"])
def test_options_from_elsewhere_are_not_omitted(table: str) -> None:
    source = f'r = spark.readStream.format("kafka")\nfor k, v in {table}:\n    r = r.option(k, v)\n'

    assert find(f'{source}r.load().writeStream.option("checkpointLocation", "/c").start("/o")') == [
        ("not-understood", 4)
    ]


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("'/c'", []),
        ("f'{BASE}/c'", []),
        ("'/c-' + str(uuid.uuid4())", [("checkpoint", 2)]),
        ("f'/c/{uuid.uuid4().hex}'", [("checkpoint", 2)]),
        ("tempfile.mkdtemp()", [("checkpoint", 2)]),
        ("f'/c/{datetime.now():%Y%m%d}'", [("checkpoint", 2)]),
    ],
)
def test_a_checkpoint_that_is_another_at_every_start_is_none(place: str, found: list[tuple[str, int]]) -> None:
    source = "import uuid, tempfile; from datetime import datetime\n"

    assert find(f'{source}{READ}.writeStream.option("checkpointLocation", {place}).start("/o")') == found


def test_the_session_has_a_checkpoint_for_queries_with_names() -> None:
    setting = 'spark.conf.set("spark.sql.streaming.checkpointLocation", "/base")'
    named, unnamed = f'{READ}.writeStream.queryName("q").start("/o")', f'{READ}.writeStream.start("/o")'

    assert find(f"{setting}\n{named}") == []
    assert find(f"{setting}\n{unnamed}") == [("checkpoint", 2)]
    assert find(f"{named}\n{setting}") == [("checkpoint", 1)]


def test_a_table_has_its_schema_and_a_date_its_line() -> None:
    script = check_script("SELECT\n  a,\n  date(at)\nFROM t;\nINSERT INTO x SELECT a FROM raw.ev", "x.sql")

    assert [(str(one.construct), one.line, one.subject) for one in script] == [
        ("time-zone", 3, "date"),
        ("appended-again", 5, "append of all of raw.ev"),
    ]
    assert check_script("SELECT CAST('2024-01-01' AS DATE), DATE '2024-01-01', date('2024-01-01')", "x.sql") == ()


def test_a_file_with_nothing_of_spark_names_the_call_that_was_not_followed() -> None:
    (finding,) = check_job("import shop\n\nshop.run('daily')", "x.py")

    assert finding.line == 3
    assert "shop.run" in finding.subject


def test_an_overwriting_batch_loses_what_did_not_change() -> None:
    source = (
        "def write(batch, number):\n    batch.write.mode('overwrite').saveAsTable('m')\n"
        f"{READ}.groupBy('k').count().writeStream.outputMode('update').foreachBatch(write)"
        ".option('checkpointLocation', '/c').start()"
    )
    (finding,) = check_job(source, "x.py")

    assert str(finding.construct) == "output-mode"
    assert "foreachBatch that overwrites" in finding.subject
