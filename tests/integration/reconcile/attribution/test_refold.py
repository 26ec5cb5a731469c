"""Windows folded again from the log by Spark: once with the versions of the stream, once with those of batch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cutover.definition import Count, Fixed, Lookup, Pipeline, Sum, Topic
from cutover.engine import queries
from cutover.lake.dimensions import dimension
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.dimension import RefoldPart, create_refold_tables
from cutover.settings import Settings
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

EVENTS = (
    Event(id=1, minute=0, key="a"),
    Event(id=2, minute=1, key="b"),
    Event(id=3, minute=2, key="a"),
    Event(id=3, minute=2, key="a"),  # its twin
    Event(id=5, minute=20, key="a"),  # of another window
    Event(id=6, minute=3, key="a"),  # beyond the offsets read
)
CAMPAIGNS = ({"a": "x", "b": "y"}, {"a": "y", "b": "y"})
LATER = rig.NOON + 20 * rig.MINUTE
PARTS = tuple(
    RefoldPart(
        windows=(start,),
        reads={0: reads},
        by_stream={"ads": (VersionSpan(partition=0, first=0, next=9, version=0, table_id=""),)},
        by_batch={
            "ads": (
                VersionSpan(partition=0, first=0, next=2, version=0, table_id=""),
                VersionSpan(partition=0, first=2, next=9, version=1, table_id=""),
            )
        },
    )
    for start, reads in ((rig.NOON, (0, 5)), (LATER, (4, 5)))
)


@pytest.fixture
def pipeline(kafka_settings: Settings, topic_name: str) -> Pipeline:
    """Return a definition whose topic holds the events, and whose dimension has two versions."""
    rig.make_topic(kafka_settings, topic_name)
    rig.send(kafka_settings, topic_name, EVENTS)
    for campaigns in CAMPAIGNS:
        rows = pa.table({"ad": list(campaigns), "campaign": list(campaigns.values())})
        write_deltalake(dimension.own_uri(kafka_settings, "ads"), rows, mode="overwrite")
    schema = "id bigint NOT NULL, k string, at timestamp NOT NULL"
    return Pipeline(
        name="views",
        source=Topic(name=topic_name, schema=schema, event_time="at", time_format="millis"),
        lookups={"ads": Lookup(table="ads", on={"k": "ad"}, columns={"campaign": "string"})},
        key=("campaign",),
        window=Fixed(minutes=10),
        measures={"views": Count(), "ids": Sum("id")},
    )


def fold(lake: PipelineLake, parts: Sequence[RefoldPart]) -> dict[str, set[tuple[Any, ...]]]:
    """Return window, campaign, records and their ids added up, as each side joined them."""
    with queries.open_duckdb() as connection:
        create_refold_tables(connection, lake, parts, into=("stream", "batch"))
        query = "SELECT epoch_us(window_start), campaign, _n, ids::BIGINT FROM"
        return {name: set(connection.execute(f"{query} {name}").fetchall()) for name in ("stream", "batch")}


@pytest.mark.usefixtures("spark")
def test_each_window_has_the_rows_of_the_versions_that_a_side_joined_its_records_with(
    kafka_settings: Settings, pipeline: Pipeline
) -> None:
    assert fold(PipelineLake(kafka_settings, pipeline), PARTS) == {
        "stream": {(rig.NOON, "x", 3, 1 + 3 + 3), (rig.NOON, "y", 1, 2), (LATER, "x", 1, 5)},
        "batch": {(rig.NOON, "x", 1, 1), (rig.NOON, "y", 3, 2 + 3 + 3), (LATER, "y", 1, 5)},
    }


@pytest.mark.quick
@pytest.mark.usefixtures("spark")
def test_of_records_with_one_id_one_counts(kafka_settings: Settings, pipeline: Pipeline) -> None:
    with_ids = replace(pipeline, source=replace(pipeline.source, record_id="id"))

    assert fold(PipelineLake(kafka_settings, with_ids), PARTS[:1]) == {
        "stream": {(rig.NOON, "x", 2, 1 + 3), (rig.NOON, "y", 1, 2)},
        "batch": {(rig.NOON, "x", 1, 1), (rig.NOON, "y", 2, 2 + 3)},
    }
