"""Files that tests send to a topic with `produce`, and the records that the topic then holds."""

from collections.abc import Iterable
from pathlib import Path

from cutover.clock import SystemClock
from cutover.log.kafka import LogClient, RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.records.sending.produce import Progress, Request, produce
from cutover.settings import Settings

LINES = b"""at,seen,k,i
1357035300,1357035420,a,1
1357035301,1357035400,b,2
1357035302,1357035420,a,3
1357035303,1357035500,,4
"""


def nothing(count: int) -> None:
    """Tell nobody."""
    assert count >= 0


SILENT = Progress(on_read=nothing, on_total=nothing, on_sent=nothing)


def send(lake: PipelineLake, request: Request) -> int:
    return produce(lake, request, clock=SystemClock(), progress=SILENT).records


def records(settings: Settings, name: str) -> list[RawRecord]:
    client = LogClient(settings)
    return [r for p, end in client.latest(name).items() for r in client.read_range(name, p, 0, end)]


def numbers(raw_records: list[RawRecord]) -> list[int]:
    return [int((r.value or b"").split(b'"i":')[1].rstrip(b"}")) for r in raw_records]


def write_numbered(path: Path, ids: Iterable[int], *, end: str = "\n") -> Path:
    """Write a file whose records are numbered, one second of log time apart."""
    lines = (f"{1357035300 + i},{1357035300 + i},k{i % 3},{i}" for i in ids)
    path.write_bytes("".join(f"{line}{end}" for line in ("at,seen,k,i", *lines)).encode())
    return path
