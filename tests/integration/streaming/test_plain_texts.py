"""Topics of CSV and of plain texts on their whole way: stream, batch, comparison, checks of the epoch log, alerts."""

import pytest
from confluent_kafka import Producer

from cutover.batch import recompute
from cutover.clock import SystemClock
from cutover.definition import Count, CsvOptions, Fixed, Lateness, Pipeline, Sum, Topic
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.record import verify_pipeline
from cutover.reconcile.watch.findings import find_schema_mismatches
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming.rig import NOON, epoch_log, fast, make_topic, query_rows

LINES = [
    *(f'"shop ""{minute % 3}""";{minute}.50;2026-03-01 12:{minute:02}' for minute in range(50)),
    "NA;NA;2026-03-01T12:10:00Z",
    "b;x;2026-03-01 12:20",
    "b;1.5;12:30",
    "b;1.5;2026-03-01 12:20\nc;2",
    "b;1.5;2026-03-01 12:25;further",
]


def send(lake: PipelineLake, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": lake.settings.kafka.bootstrap_servers})
    for place, value in enumerate(values):
        producer.produce(lake.pipeline.source.name, value.encode(), timestamp=NOON // 1000 + place * 60_000)
    assert producer.flush(30) == 0


@pytest.fixture(params=["csv", "text"])
def lake(request: pytest.FixtureRequest, kafka_settings: Settings, topic_name: str) -> PipelineLake:
    settings = fast(kafka_settings)
    make_topic(settings, topic_name)
    options = CsvOptions(delimiter=";", escape='"', null_value="NA")
    schema = "shop string, amount decimal(9,2), at timestamp"
    source = Topic(name=topic_name, schema=schema, event_time="at", parse="csv", csv=options)
    if request.param == "text":
        source = Topic(name=topic_name, schema="line string, at timestamp", event_time="at", parse="text")
    pipeline = Pipeline(
        name="orders",
        source=source,
        derive={} if request.param == "csv" else {"shop": "left(line, 8)", "amount": "length(line)"},
        key=("shop",),
        window=Fixed(minutes=10),
        measures={"orders": Count(), "revenue": Sum("amount")},
        lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds"),
    )
    return PipelineLake(settings, pipeline)


def test_lines_are_streamed_recomputed_compared_and_verified(lake: PipelineLake) -> None:
    send(lake, LINES)

    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    assert report.finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert report.finding.windows.compared > 4
    verification = verify_pipeline(lake, exhaustive=True, clock=SystemClock())
    assert {name: check for name, check in verification.checks.items() if check.violations} == {}
    positions = "SELECT unnest(_positions) AS p FROM rows WHERE _class = 'malformed'"
    reasons = dict(query_rows(lake, f"SELECT p.reason, count(*) FROM ({positions}) GROUP BY ALL"))  # noqa: S608 -- ours
    is_csv = lake.pipeline.source.parse == "csv"
    assert reasons == ({"type": 1, "event_time": 1} if is_csv else {})
    log, epochs = epoch_log(lake), epoch_log(lake).records()
    mismatches = find_schema_mismatches(lake.pipeline, log, LogClient(lake.settings), epochs)
    descriptions = [mismatch.description for mismatch in mismatches]
    assert descriptions == (["a field does not fit (type)", "field 4 is not in the schema"] if is_csv else [])
