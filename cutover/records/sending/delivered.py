"""Records of interrupted runs that the log holds: each message names its run and its record in a header.

The log is asked, not the notes: the broker knows more than a run that was killed. A header is seen under either
isolation level, and among the records of other producers.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka import Message

from cutover.errors import LogError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.records.sending.produced import ProducedRun

HEADER = "cutover-produce"


def make_headers(run: str, number: int) -> list[tuple[str, str | bytes | None]]:
    """Return the headers of a message: its run, and the number of its record in the file."""
    return [(HEADER, f"{run}:{number}".encode())]


def find_delivered(client: LogClient, log: LogId, runs: Iterable[ProducedRun]) -> dict[str, set[int]]:
    """Return of each run the numbers of the records that the topic holds.

    Reads from where the first of the runs began up to the end, and again until the end stays: the last requests of a
    process that was killed a moment ago may still be on their way.

    Raises:
        LogError: No broker answers, or the topic has lost records of a run or may have: nobody knows what was sent.
    """
    runs_by_id = {run.run: run for run in runs}
    delivered: dict[str, set[int]] = {name: set() for name in runs_by_id}
    if not runs_by_id:
        return delivered
    earliest = client.earliest(log.topic)
    starts = _find_starts(runs_by_id.values(), earliest)
    _check_whole(client, log.topic, starts, earliest)
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
    """Return where the first run began in each partition; of one that was added since, its first record."""
    all_runs = list(runs)
    return {p: min(run.offsets.get(str(p), first_offset) for run in all_runs) for p, first_offset in earliest.items()}


def _check_whole(client: LogClient, topic: str, starts: Mapping[int, int], earliest: Mapping[int, int]) -> None:
    lossy_partitions = [partition for partition, start in starts.items() if start < earliest[partition]]
    if lossy_partitions:
        partition = lossy_partitions[0]
        msg = (
            f"Topic `{topic}`, partition {partition}: expected the records of an interrupted `cutover produce` from "
            f"offset {starts[partition]:,} on, the first one left is {earliest[partition]:,}."
        )
        raise LogError(msg + "\nHint: what it sent cannot be known; `--again` sends all of the file once more.")
    if "compact" in client.config(topic).get("cleanup.policy", ""):
        msg = f"Topic `{topic}`: expected cleanup.policy=delete to resume an interrupted `produce`, got compact."
        raise LogError(msg + "\nHint: what it sent may be gone already; `--again` sends all of the file once more.")


def _parse_header(message: Message) -> tuple[str, int]:
    """Return run and number; an empty run for a message of another producer."""
    headers = message.headers() or []
    for name, value in headers if isinstance(headers, list) else headers.items():
        if name == HEADER and isinstance(value, bytes):
            run, _, number = value.partition(b":")
            return (run.decode("utf-8", "replace"), int(number)) if number.isdigit() else ("", 0)
    return "", 0
