"""What a run reads and writes, as OpenLineage names it.

Names follow its convention (OpenLineage, Spec, Naming): a topic is `kafka://host:port` and its name; a table `file` and
its path, or its store and what follows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent
from openlineage.client.generated.base import DatasetFacet, EventType, InputDatasetFacet, RunFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.log.address import bootstrap_servers
from cutover.log.topic_partitions import split_topics
from cutover.settings import Settings

PRODUCER = "urn:cutover"
Span = tuple[int | None, int]
"""Offsets from, None: from the first there is, up to; the latter exclusive."""


@attr.define
class OffsetsInputDatasetFacet(InputDatasetFacet):
    """Which records of a topic a run read."""

    topicId: str = attr.field(default="")  # noqa: N815 -- as OpenLineage writes fields
    clusterId: str = attr.field(default="")  # noqa: N815
    ranges: list[dict[str, int]] = attr.field(factory=list)  # partition, from (none: the first), to (exclusive)

    @staticmethod
    def _get_schema() -> str:
        return "urn:cutover:OffsetsInputDatasetFacet:1"


def make_input_topics(
    settings: Settings, log: str, log_id: str, cluster_id: str, read: Mapping[int, Span]
) -> Iterator[InputDataset]:
    """Yield the topics of a log with what was read of each.

    Args:
        settings: Which brokers.
        log: Its name: one topic, or both of a join.
        log_id: Their ids, in the same form.
        cluster_id: Of the brokers.
        read: partition, as we number it -> its offsets.

    Raises:
        LogError: Nobody says where the brokers are.
    """
    brokers = bootstrap_servers(settings).split(",")[0]
    for topic_index, (name, topic_id) in enumerate(zip(split_topics(log), split_topics(log_id), strict=True)):
        ranges = [
            {"partition": p % RIGHT_PARTITION_BASE} | ({} if start is None else {"from": start}) | {"to": end}
            for p, (start, end) in sorted(read.items())
            if p // RIGHT_PARTITION_BASE == topic_index
        ]
        facet = OffsetsInputDatasetFacet(topicId=topic_id, clusterId=cluster_id, ranges=ranges)
        yield InputDataset(namespace=f"kafka://{brokers}", name=name, inputFacets={"cutover_offsets": facet})


def make_input_table(uri: str, version: int | None) -> InputDataset:
    """Name the table and, where it is known, its Delta version."""
    namespace, name = _name_dataset(uri)
    return InputDataset(namespace=namespace, name=name, facets=_make_version_facet(version))


def make_output_table(uri: str, version: int | None) -> OutputDataset:
    """Name the table and the Delta version that a run left, where it is known."""
    namespace, name = _name_dataset(uri)
    return OutputDataset(namespace=namespace, name=name, facets=_make_version_facet(version))


def _name_dataset(uri: str) -> tuple[str, str]:
    if "://" not in uri:
        return "file", uri
    parts = urlsplit(uri)
    return ("file", parts.path) if parts.scheme == "file" else (f"{parts.scheme}://{parts.netloc}", parts.path[1:])


def _make_version_facet(version: int | None) -> dict[str, DatasetFacet] | None:
    return None if version is None else {"version": DatasetVersionDatasetFacet(datasetVersion=str(version))}


def make_event(  # noqa: PLR0913 -- all that an event holds
    *,
    state: str,
    at: str,
    run_id: str,
    job: tuple[str, str],
    inputs: Sequence[InputDataset],
    outputs: Sequence[OutputDataset],
    facets: Mapping[str, Any],
) -> RunEvent:
    """Return one event.

    Args:
        state: A name of OpenLineage's `EventType`.
        at: ISO 8601.
        run_id: A UUID.
        job: Namespace and name.
        inputs: What was read.
        outputs: What was written.
        facets: What else is said of the run, as its facet `cutover_result`.
    """
    message = RunFacet(producer=PRODUCER).with_additional_properties(**facets) if facets else None
    return RunEvent(
        eventTime=at,
        producer=PRODUCER,
        eventType=EventType(state),
        run=Run(runId=run_id, facets={} if message is None else {"cutover_result": cast("RunFacet", message)}),
        job=Job(namespace=job[0], name=job[1]),
        inputs=list(inputs),
        outputs=list(outputs),
    )
