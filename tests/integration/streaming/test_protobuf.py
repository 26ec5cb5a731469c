"""A topic in Protobuf on its whole way: stream, batch, comparison, checks of the epoch log, recorded definition."""

from datetime import timedelta

from confluent_kafka import Producer

from cutover.batch import recompute
from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Lateness, Pipeline, Sum
from cutover.lake.recorded_definitions import decode_definition, encode_definition
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.record import verify_pipeline
from cutover.reconcile.watch.findings import find_schema_mismatches
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming.rig import NOON as LOG_NOON
from tests.integration.streaming.rig import epoch_log, fast, make_topic, query_rows
from tests.support.rows import protobuf_values
from tests.support.rows.protobuf_values import NOON, new_message

SCHEMA = "id bigint NOT NULL, shop string, small decimal(12,2), state string, at timestamp"
MINUTES = 50


def make_values() -> list[bytes]:
    values = []
    for minute in range(MINUTES):
        order = new_message("shop.Next")
        order.id, order.shop, order.small, order.state = minute + 1, f"s{minute % 3}", minute, minute % 2
        order.at.FromDatetime(NOON + timedelta(minutes=minute))
        values.append(order.SerializeToString())
    order.added = "x"
    order.at.FromDatetime(NOON)
    return [*values, order.SerializeToString(), b"\x08", b"\x12\x01a"]


def test_messages_are_streamed_recomputed_compared_and_verified(kafka_settings: Settings, topic_name: str) -> None:
    settings = fast(kafka_settings)
    make_topic(settings, topic_name)
    pipeline = Pipeline(
        name="orders",
        source=protobuf_values.make_topic(SCHEMA, name=topic_name),
        key=("shop", "state"),
        window=Fixed(minutes=10),
        measures={"orders": Count(), "revenue": Sum("small")},
        lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds"),
    )
    lake = PipelineLake(settings, pipeline)
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for place, value in enumerate(make_values()):
        producer.produce(topic_name, value, timestamp=LOG_NOON // 1000 + place * 60_000)
    assert producer.flush(30) == 0

    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    assert report.finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert report.finding.windows.compared > MINUTES / 10 - 1
    verification = verify_pipeline(lake, exhaustive=True, clock=SystemClock())
    assert {name: check for name, check in verification.checks.items() if check.violations} == {}
    positions = "SELECT unnest(_positions) AS p FROM rows WHERE _class = 'malformed'"
    reasons = dict(query_rows(lake, f"SELECT p.reason, count(*) FROM ({positions}) GROUP BY ALL"))  # noqa: S608 -- ours
    assert reasons == {"protobuf": 1, "missing": 1}
    mismatches = find_schema_mismatches(pipeline, epoch_log(lake), LogClient(settings), epoch_log(lake).records())
    assert [mismatch.description for mismatch in mismatches] == [
        "field `id` is missing",
        "field `40` is not in the schema",
    ]
    assert decode_definition(encode_definition(pipeline)) == pipeline
