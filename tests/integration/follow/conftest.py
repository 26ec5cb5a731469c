"""The topic and the job of each test."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cutover.settings import Settings
from tests.integration.streaming.rig import fast, make_topic, send
from tests.support.followed_jobs import EVENTS, JobTopic


@pytest.fixture
def rig(
    request: pytest.FixtureRequest, spark: SparkSession, kafka_settings: Settings, topic_name: str, tmp_path: Path
) -> JobTopic:
    """Send the records of a module, `SENT` if it has its own, to a topic of two partitions."""
    settings = fast(kafka_settings)
    make_topic(settings, topic_name, partitions=2)
    send(settings, topic_name, getattr(request.module, "SENT", EVENTS))
    return JobTopic(spark=spark, settings=settings, topic=topic_name, place=tmp_path / "job")
