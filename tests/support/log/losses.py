"""A recorded loss to vary: `replace(LOSS, epoch=7)`."""

from datetime import UTC, datetime

from cutover.lake.journal_rows import Loss

LOSS = Loss(
    pipeline="clicks",
    result_fingerprint="f",
    stream_version=0,
    epoch=1,
    kind="gap",
    topic="t",
    topic_id="A",
    partition=0,
    first=40,
    next=60,
    onward_topic_id="A",
    windows_from=None,
    windows_to=None,
    who="me",
    why="retention",
    at=datetime(2026, 1, 1, tzinfo=UTC),
)
