"""A small file of records, and the pipeline that reads them."""

from pathlib import Path

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from tests.support.log.sent_files import LINES


@pytest.fixture
def pipeline(topic_name: str) -> Pipeline:
    source = Topic(
        name=topic_name,
        schema="at timestamp, seen timestamp, k string, i int",
        event_time="at",
        log_time="seen",
        time_format="seconds",
    )
    return Pipeline(name="p", source=source, key=("k",), window=Fixed(hours=1), measures={"n": Count()})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)
    return path
