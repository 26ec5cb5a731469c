"""What a batch run tells a person: every record in one class, and times that a person reads."""

from cutover.batch.cli import summary_table
from cutover.definition.windows.window_fn import EARLIEST
from cutover.lake.batch_runs import BatchRun

HOUR = 3_600_000_000
RUN = BatchRun(
    run_id="r",
    epoch=3,
    stream_version=0,
    topic="t",
    topic_id="T",
    cluster_id="C",
    cut={0: 2_644},
    scanned={0: (0, 2_644)},
    watermark=None,
    result_fingerprint="f",
    batch_fingerprint="same",
    isolation="read_committed",
    computed=((EARLIEST, 0), (2 * HOUR, 3 * HOUR)),
    counts={"accepted": 1_312, "duplicate": 40, "future": 4, "malformed": 1_328},
)


def lines(run: BatchRun) -> dict[str, str]:
    """Return the table's rows by their names."""
    names, values = (map(str, column.cells) for column in summary_table("p", run).columns)
    return dict(zip(names, values, strict=True))


def test_classes_add_up_to_what_was_scanned_and_duplicates_are_told_apart() -> None:
    shown = lines(RUN)

    assert shown["classes by window"] == "accepted 1,312, future 4, malformed 1,328"
    assert shown["duplicates"] == "40 in the windows computed"


def test_windows_since_ever_begin_at_the_beginning() -> None:
    assert lines(RUN)["windows computed"].startswith("the beginning to 1970-01-01 00:00")
