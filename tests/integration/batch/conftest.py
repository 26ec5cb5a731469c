"""A laboratory for each test: its own topic, lake and home, on the session's broker and Spark."""

from typing import TYPE_CHECKING

import pytest

from cutover.log.kafka import LogClient
from cutover.settings import Settings
from tests.integration.batch.lab import PARTITIONS, Lab, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lab(kafka_settings: Settings, topic_name: str, spark: "SparkSession") -> Lab:  # noqa: ARG001 -- made once, used by run
    LogClient(kafka_settings).create_topic(topic_name, partitions=PARTITIONS, config={"retention.ms": "-1"})
    return Lab(kafka_settings, pipeline_of(topic_name))
