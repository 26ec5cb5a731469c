"""Inputs and outputs of a run as OpenLineage datasets.

Namespace and name follow its convention (OpenLineage, Spec, Naming): `kafka://host:port` and the name of a topic;
`file` and the path of a table, or the object store and the path in it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent
from openlineage.client.generated.base import DatasetFacet, EventType, InputDatasetFacet, RunFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.log.options import bootstrap_servers
from cutover.log.topic_partitions import split_topics
from cutover.settings import Settings

PRODUCER = "urn:cutover"
Span = tuple[int | None, int]
"""First offset (None: the earliest one) and end offset, exclusive."""


@attr.define
class OffsetsInputDatasetFacet(InputDatasetFacet):
    """Offsets of a topic that a run read."""

    topicId: str = attr.field(default="")  # noqa: N815 -- OpenLineage's naming of fields
    clusterId: str = attr.field(default="")  # noqa: N815
    ranges: list[dict[str, int]] = attr.field(factory=list)  # partition, from (missing: the earliest), to (exclusive)

    @staticmethod
    def _get_schema() -> str:
        return "urn:cutover:OffsetsInputDatasetFacet:1"


def make_input_topics(
    settings: Settings, log: str, log_id: str, cluster_id: str, read: Mapping[int, Span]
) -> Iterator[InputDataset]:
    """Yield the topics of a log with the offsets that were read.

    Args:
        settings: Settings with the address of the cluster.
        log: Name of the log: one topic, or both topics of a join.
        log_id: Id of the log, in the same form.
        cluster_id: Id of the cluster.
        read: Partition number in the log -> offsets.

    Raises:
        LogError: The address of the cluster is unknown.
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
    """Return an input table with its Delta version, if that is known."""
    namespace, name = _name_dataset(uri)
    return InputDataset(namespace=namespace, name=name, facets=_make_version_facet(version))


def make_output_table(uri: str, version: int | None) -> OutputDataset:
    """Return an output table with the Delta version after the run, if that is known."""
    namespace, name = _name_dataset(uri)
    return OutputDataset(namespace=namespace, name=name, facets=_make_version_facet(version))


def _name_dataset(uri: str) -> tuple[str, str]:
    if "://" not in uri:
        return "file", uri
    parts = urlsplit(uri)
    return ("file", parts.path) if parts.scheme == "file" else (f"{parts.scheme}://{parts.netloc}", parts.path[1:])


def _make_version_facet(version: int | None) -> dict[str, DatasetFacet] | None:
    return None if version is None else {"version": DatasetVersionDatasetFacet(datasetVersion=str(version))}


def make_run_event(  # noqa: PLR0913 -- one per field of the event
    *,
    state: str,
    at: str,
    run_id: str,
    job: tuple[str, str],
    inputs: Sequence[InputDataset],
    outputs: Sequence[OutputDataset],
    facets: Mapping[str, Any],
) -> RunEvent:
    """Build one event.

    Args:
        state: Name of an OpenLineage `EventType`.
        at: Time of the event, ISO 8601.
        run_id: A UUID.
        job: Namespace and name.
        inputs: Datasets that were read.
        outputs: Datasets that were written.
        facets: Properties of the run facet `cutover_result`.
    """
    result_facet = cast("RunFacet", RunFacet(producer=PRODUCER).with_additional_properties(**facets))
    return RunEvent(
        eventTime=at,
        producer=PRODUCER,
        eventType=EventType(state),
        run=Run(runId=run_id, facets={"cutover_result": result_facet} if facets else {}),
        job=Job(namespace=job[0], name=job[1]),
        inputs=list(inputs),
        outputs=list(outputs),
    )
