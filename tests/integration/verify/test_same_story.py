"""N8: the same log and cut give the same batch whatever the width of a shuffle, and the same report but its times."""

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from tests.integration.batch.lab import BASE, HOUR, PARTITIONS, Lab, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = ("run_id", "at", "seconds", "report", "page", "repeats", "repeated_at")
START = datetime.fromtimestamp(BASE, UTC)


@pytest.fixture
def lab(kafka_settings: Settings, topic_name: str, spark: "SparkSession") -> Lab:  # noqa: ARG001 -- made once, used by run
    LogClient(kafka_settings).create_topic(topic_name, partitions=PARTITIONS, config={"retention.ms": "-1"})
    return Lab(kafka_settings, pipeline_of(topic_name))


def test_a_batch_is_the_same_for_any_width_of_its_shuffle(lab: Lab, spark: "SparkSession") -> None:
    draw = random.Random(5)  # noqa: S311 -- a test's story, the same each time
    keys = ["AA", "UA", None, "XX"]
    rows = [(n % PARTITIONS, draw.randrange(5 * HOUR), draw.choice(keys), draw.randrange(400)) for n in range(400)]
    lab.send(*rows)
    lab.commit_epoch(watermark=9 * HOUR)

    for width in (1, 7, 64):
        conf = {"spark.sql.shuffle.partitions": str(width)}
        wide = lab.settings.spark.model_copy(update={"conf": conf})
        settings = lab.settings.model_copy(update={"spark": wide})
        recompute_windows(PipelineLake(settings, lab.pipeline), start=START, end=START + timedelta(hours=5))
        assert spark.conf.get("spark.sql.shuffle.partitions") == str(width)

    checked = verify_pipeline(lab.lake, only=["N8"]).checks["N8"]
    assert (checked.violations, checked.coverage) == ((), "10 windows of 2 pairs of runs")


def test_a_report_is_the_same_but_for_its_times(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (1, 20, "UA", None))
    lab.commit_epoch(watermark=9 * HOUR)
    recompute_windows(lab.lake)

    assert _story(lab) == _story(lab)


def _story(lab: Lab) -> dict[str, Any]:
    report = run_reconciliation(lab.lake).to_json()
    assert set(OWN) <= set(report)
    return {name: value for name, value in report.items() if name not in OWN}
