"""Kinds of jobs, written as teams write them, that `cutover adopt` describes from what they have left behind."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.adoption.adopt import Adoption, AdoptionRequest, adopt
from cutover.adoption.draft import Stated
from cutover.cli.adopt import render_adoption
from cutover.definition import Pipeline
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.follow.test_adopt import take_first
from tests.integration.streaming.rig import Event, fast, make_topic, send
from tests.support.followed_jobs import compare
from tests.support.jobs import Write, append_to, merge_into, run_job

SCHEMA = (
    "event_id bigint, merchant string, amount decimal(10,2), qty int, price double, status string,"
    " event_time timestamp, created_at timestamp, customer struct<country: string, vip: boolean>"
)
START = datetime(2026, 3, 1, tzinfo=UTC)


def make_payment(number: int, draw: random.Random) -> dict[str, Any]:
    moment = START + timedelta(minutes=4 * number) - timedelta(minutes=draw.choice([0, 0, 0, 0, 3, 200]))
    return {
        "event_id": number,
        "merchant": draw.choice(["acme", "bolt", "cove", None]),
        "amount": f"{draw.randrange(-200, 5000) / 100:.2f}",
        "qty": draw.randrange(1, 20),
        "price": draw.random() * 10,
        "status": draw.choice(["settled", "settled", "pending", "failed"]),
        "event_time": moment.isoformat(),
        "created_at": (moment - timedelta(seconds=draw.randrange(1, 3000))).isoformat(),
        "customer": {"country": draw.choice(["DE", "FR", "US"]), "vip": draw.random() < 0.5},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Payments:
    """A topic with payments, and the folder of a job that reads it."""

    spark: SparkSession
    settings: Settings
    topic: str
    place: Path

    def read(self) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": str(self.settings.kafka.bootstrap_servers),
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "60",
        }
        value = F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")
        return self.spark.readStream.format("kafka").options(**options).load().select(value).select("v.*")

    def adopt(self, **stated: Any) -> tuple[Adoption, Pipeline]:
        request = AdoptionRequest(
            name="payments",
            checkpoint=f"{self.place}/checkpoint",
            stream=f"{self.place}/table",
            batch=None,
            topic=None,
            time_format=None,
            records=10_000,
            stated=Stated(**stated),
        )
        adoption = adopt(self.settings, request, take_first, lambda _: None)
        file = self.place / "payments.py"
        file.write_text(render_adoption(adoption), encoding="utf-8")
        (pipeline,) = catalogue.load_file(file)
        return adoption, pipeline


@pytest.fixture(scope="module")
def payments_topic(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    settings = fast(Settings(home=tmp_path_factory.mktemp("home"), kafka={"bootstrap_servers": kafka_bootstrap}))
    draw = random.Random(7)  # noqa: S311 -- repeatable records
    payments = [make_payment(number, draw) for number in range(300)]
    payments += [payments[number] for number in (10, 50, 120, 250)]
    make_topic(settings, "payments-adopt", partitions=2)
    send(
        settings,
        "payments-adopt",
        [
            Event(id=n, partition=n % 2, minute=0.1 * n, raw=json.dumps(each).encode())
            for n, each in enumerate(payments)
        ],
    )
    return "payments-adopt"


@pytest.fixture
def payments(spark: SparkSession, kafka_settings: Settings, payments_topic: str, tmp_path: Path) -> Payments:
    return Payments(spark=spark, settings=fast(kafka_settings), topic=payments_topic, place=tmp_path / "job")


def timed(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("event_time", "30 minutes")


def settled_by_merchant(rows: DataFrame) -> DataFrame:
    grouped = timed(rows.where("status = 'settled'")).groupBy(
        F.window("event_time", "1 hour"), F.col("merchant").alias("shop")
    )
    measures = [
        F.count("*").alias("payments"),
        F.sum("amount").alias("revenue"),
        F.avg("amount").alias("mean"),
        F.max("amount").alias("largest"),
        F.min("event_time").alias("first_at"),
        F.stddev("price").alias("spread"),
    ]
    return grouped.agg(*measures).select(
        F.col("window.start").alias("hour"),
        "shop",
        "payments",
        "revenue",
        "mean",
        "largest",
        "first_at",
        "spread",
    )


def positive(rows: DataFrame) -> DataFrame:
    rows = timed(rows.where("status <> 'failed' AND amount > 0"))
    return rows.groupBy(F.window("event_time", "2 hours", "1 hour"), "merchant").agg(
        F.sum("qty").alias("qty"), F.sum("amount").alias("amount")
    )


def small_decimals(rows: DataFrame) -> DataFrame:
    rows = timed(rows.withColumn("amount", F.col("amount").cast("decimal(6,2)")))
    return rows.groupBy(F.window("event_time", "1 hour"), "merchant").agg(
        F.sum("amount").alias("total"), F.count("*").alias("n")
    )


def created(rows: DataFrame) -> DataFrame:
    rows = rows.withWatermark("created_at", "30 minutes")
    return rows.groupBy(F.window("created_at", "1 hour"), "merchant").agg(F.count("*").alias("n"))


def products(rows: DataFrame) -> DataFrame:
    return (
        timed(rows)
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.sum(F.col("price") * F.col("qty")).alias("worth"), F.count("*").alias("n"))
    )


def coalesced(rows: DataFrame) -> DataFrame:
    return (
        timed(rows)
        .groupBy(F.window("event_time", "1 hour"), F.coalesce("merchant", F.lit("none")).alias("shop"))
        .agg(F.count("*").alias("n"))
    )


def threshold(rows: DataFrame) -> DataFrame:
    return (
        timed(rows.where("amount >= 12.5"))
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))
    )


def deduplicated(rows: DataFrame) -> DataFrame:
    return (
        timed(rows)
        .dropDuplicates(["event_id", "event_time"])
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.count("*").alias("n"))
    )


def within(rows: DataFrame) -> DataFrame:
    return (
        timed(rows)
        .dropDuplicatesWithinWatermark(["event_id"])
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.count("*").alias("n"))
    )


def cleaned(rows: DataFrame) -> DataFrame:
    return rows.where("status <> 'failed'").selectExpr(
        "event_id",
        "merchant",
        "amount",
        "event_time AS paid_at",
        "upper(merchant) AS label",
        "customer.country AS country",
    )


def conditional(rows: DataFrame) -> DataFrame:
    settled = F.col("status") == "settled"
    measures = [
        F.count("*").alias("n"),
        F.count_if(F.col("status") == "failed").alias("failed"),
        F.sum(F.when(settled, F.col("amount"))).alias("settled_amount"),
        F.sum(F.when(F.col("amount") < 0, F.col("amount")).otherwise(0)).alias("refunds"),
    ]
    return timed(rows).groupBy(F.window("event_time", "1 hour"), "merchant").agg(*measures)


def sessions(rows: DataFrame) -> DataFrame:
    grouped = timed(rows).groupBy(F.session_window("event_time", "10 minutes"), "merchant")
    return grouped.agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))


def day_of_berlin(rows: DataFrame) -> DataFrame:
    day = F.to_date(F.from_utc_timestamp("event_time", "Europe/Berlin")).alias("day")
    return timed(rows).groupBy(day, "merchant").agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))


JOBS: list[tuple[str, Callable[[DataFrame], DataFrame], str, str, Mapping[str, Any]]] = [
    ("settled merge", settled_by_merchant, "update", "merge hour shop", {}),
    ("positive", positive, "append", "native", {}),
    ("small decimals", small_decimals, "complete", "native", {}),
    ("created", created, "append", "native", {}),
    ("products", products, "append", "native", {}),
    ("coalesced", coalesced, "append", "native", {"keys": {"shop": "coalesce(merchant, 'none')"}}),
    ("threshold", threshold, "append", "native", {}),
    ("deduplicated", deduplicated, "append", "native", {}),
    ("within", within, "append", "native", {}),
    ("cleaned", cleaned, "append", "native", {}),
    ("appended", within, "update", "appended", {}),
    ("conditional", conditional, "append", "native", {}),
    ("sessions", sessions, "append", "native", {}),
    ("sessions complete", sessions, "complete", "native", {}),
]


@pytest.mark.parametrize(("job", "mode", "sink", "stated"), [pytest.param(*job[1:], id=job[0]) for job in JOBS])
def test_a_job_of_each_kind_is_reproduced(
    payments: Payments, job: Callable[[DataFrame], DataFrame], mode: str, sink: str, stated: Mapping[str, Any]
) -> None:
    table = f"{payments.place}/table"
    write: Write | None = None
    if sink.startswith("merge"):
        on = " AND ".join(f"t.{key} <=> s.{key}" for key in sink.split()[1:])
        write = merge_into(table, on=on)
    elif sink == "appended":
        write = append_to(table, numbered=True)
    run_job(job(payments.read()), payments.place, mode, write)
    adoption, pipeline = payments.adopt(**stated)
    assert adoption.verification is not None
    assert adoption.verification.is_exact
    finding = compare(PipelineLake(payments.settings, pipeline))
    assert [(job.different, job.rows > 3) for job in finding.jobs] == [(0, True)], finding.sentence


def test_days_of_a_zone_are_rejected_with_the_zone(payments: Payments) -> None:
    run_job(day_of_berlin(payments.read()), payments.place, "complete", None)
    with pytest.raises(DefinitionError, match=r"it groups by `day`: they are days of Europe/Berlin") as caught:
        payments.adopt()
    assert "which reproduce all" in str(caught.value)
    assert not (payments.place / "payments.py").exists()
