"""Summary of a batch run: each record in exactly one class, and readable times."""

from dataclasses import replace

from cutover.batch.cli import summary_table
from cutover.definition import Sliding
from cutover.definition.windows.kinds import Window
from cutover.definition.windows.window_fn import EARLIEST
from cutover.lake.batch_runs import BatchRun
from tests.support.rows.measured import PIPELINE

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


def lines(run: BatchRun, window: Window = PIPELINE.window) -> dict[str, str]:
    """Return the table's rows by their names."""
    names, values = (map(str, column.cells) for column in summary_table(replace(PIPELINE, window=window), run).columns)
    return dict(zip(names, values, strict=True))


def test_classes_add_up_to_scanned_records_with_duplicates_apart() -> None:
    summary = lines(RUN)

    assert summary["classes by window"] == "accepted 1,312, future 4, malformed 1,328"
    assert summary["duplicates"] == "40 in the windows computed"


def test_new_records_are_records_and_not_offsets() -> None:
    run = replace(RUN, scanned={0: (0, 258), 1: (100, 358)}, counts={"accepted": 350, "malformed": 42, "filtered": 8})

    assert lines(run)["new records"] == "400 in 516 offsets"


def test_a_record_in_several_windows_is_one_record() -> None:
    even, odd = Sliding(size="1 hour", every="10 minutes"), Sliding(size="1 hour", every="25 minutes")
    run = replace(RUN, scanned={0: (0, 120)}, counts={"accepted": 300, "malformed": 4})

    assert lines(run, even)["new records"] == "54 in 120 offsets"
    assert lines(run, odd)["new records"] == "104 to 120 in 120 offsets"


def test_unbounded_windows_are_shown_from_the_beginning() -> None:
    assert lines(RUN)["windows computed"].startswith("the beginning to 1970-01-01 00:00")
