"""Detection of records that an interrupted run delivered: a header of each message contains its run and record number.

The log is the source of truth, not the local notes, since a killed run may not know what the broker accepted. Headers
are visible under either isolation level, and among the records of other producers.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka import Message

from cutover.errors import LogError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending.produced import ProducedRun

HEADER = "cutover-produce"


def make_headers(run: str, number: int) -> list[tuple[str, str | bytes | None]]:
    """Build the headers of a message: its run, and the number of its record in the file."""
    return [(HEADER, f"{run}:{number}".encode())]


def find_delivered(client: LogClient, log: LogId, runs: Iterable[ProducedRun]) -> dict[str, set[int]]:
    """Find the record numbers of each run that are in the topic.

    Reads from the start of the earliest run to the end of the log, repeatedly until the end does not move: the last
    requests of a process that was killed a moment ago may still be in flight.

    Raises:
        LogError: No broker responds, or the topic has lost or may have lost records of a run, so that it is unknown
            what was sent.
    """
    runs_by_id = {run.run: run for run in runs}
    delivered: dict[str, set[int]] = {name: set() for name in runs_by_id}
    if not runs_by_id:
        return delivered
    earliest = client.earliest(log.topic)
    starts = _find_starts(runs_by_id.values(), earliest)
    _check_no_loss(client, log.topic, starts, earliest)
    ends = client.high_watermarks(log.topic)
    while any(starts.get(partition, 0) < end for partition, end in ends.items()):
        ranges = {partition: (starts.get(partition, 0), end) for partition, end in ends.items()}
        for message in client.messages(log.topic, ranges, "read_uncommitted"):
            name, number = _parse_header(message)
            if name in delivered:
                delivered[name].add(number)
        starts, ends = ends, client.high_watermarks(log.topic)
    return delivered


def _find_starts(runs: Iterable[ProducedRun], earliest: Mapping[int, int]) -> dict[int, int]:
    """Return the start of the earliest run in each partition; for a partition added since, its earliest offset."""
    all_runs = list(runs)
    return {p: min(run.offsets.get(str(p), first_offset) for run in all_runs) for p, first_offset in earliest.items()}


def _check_no_loss(client: LogClient, topic: str, starts: Mapping[int, int], earliest: Mapping[int, int]) -> None:
    lossy_partitions = [partition for partition, start in starts.items() if start < earliest[partition]]
    if lossy_partitions:
        partition = lossy_partitions[0]
        msg = (
            f"Topic `{topic}`, partition {partition}: expected the records of an interrupted `cutover produce` from "
            f"offset {starts[partition]:,} on, the first remaining offset is {earliest[partition]:,}."
        )
        raise LogError(msg + "\nHint: it is unknown which records were sent; `--again` sends the whole file again.")
    if "compact" in client.config(topic).get("cleanup.policy", ""):
        msg = f"Topic `{topic}`: expected cleanup.policy=delete to resume an interrupted `produce`, got compact."
        raise LogError(msg + "\nHint: records may already be compacted; `--again` sends the whole file again.")


def _parse_header(message: Message) -> tuple[str, int]:
    """Return the run and the record number; the run is empty for a message of another producer."""
    headers = message.headers() or []
    for name, value in headers if isinstance(headers, list) else headers.items():
        if name == HEADER and isinstance(value, bytes):
            run, _, number = value.partition(b":")
            return (run.decode("utf-8", "replace"), int(number)) if number.isdigit() else ("", 0)
    return "", 0
