"""Version of a dimension that each record was joined with, by partition and offset."""

from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.joined_versions import END, VersionSpan
from cutover.lake.epochs.epoch_log import EpochRecord


def record(epoch: int, start: dict[int, int], end: dict[int, int], version: int | None) -> EpochRecord:
    versions_by_table = {} if version is None else {"ads": version}
    return EpochRecord(
        epoch=epoch, run_id="r", topic="t", topic_id="i", cluster_id="c", start=start, end=end, max_event={},
        watermark_before=None, watermark_after=None, dimensions=versions_by_table,
        dimension_ids=dict.fromkeys(versions_by_table, "x"),
    )  # fmt: skip


def span(partition: int, start: int, end: int, version: int, table_id: str = "x") -> VersionSpan:
    return VersionSpan(partition=partition, first=start, next=end, version=version, table_id=table_id)


EPOCHS = [
    record(0, {0: 5, 1: 0}, {0: 10, 1: 0}, 3),
    record(1, {0: 10, 1: 0}, {0: 20, 1: 7}, 3),
    record(2, {0: 20, 1: 7}, {0: 20, 1: 7}, None),  # a tick joins nothing
    record(3, {0: 20, 1: 7}, {0: 25, 1: 9}, 4),
]


def test_epochs_of_one_version_are_one_span() -> None:
    assert joined_versions.list_recorded_spans(EPOCHS, "ads") == (
        span(0, 5, 20, 3),
        span(0, 20, 25, 4),
        span(1, 0, 7, 3),
        span(1, 7, 9, 4),
    )


def test_every_offset_lies_in_one_span_even_if_no_epoch_read_it() -> None:
    spans = joined_versions.list_recorded_spans(EPOCHS, "ads")

    version_spans = joined_versions.spans_to_read(spans, [{0: (0, 22), 2: (0, 4)}, {0: (24, 30)}], newest=(9, "x"))

    assert version_spans == (span(0, 0, 20, 3), span(0, 20, 22, 4), span(0, 24, 30, 4), span(2, 0, 4, 9))


def test_a_record_has_the_version_of_its_epoch() -> None:
    spans = joined_versions.list_recorded_spans(EPOCHS, "ads")

    assert [joined_versions.version_at(spans, 0, offset)[0] for offset in (0, 19, 20, END - 1)] == [3, 3, 4, 4]


def test_sides_diverge_where_version_or_table_differ() -> None:
    left_spans = (span(0, 0, 10, 3), span(0, 10, 20, 4), span(1, 0, 5, 3))
    right_spans = (span(0, 0, 12, 3), span(0, 12, 20, 4), span(1, 2, 9, 3, "made again"))

    assert joined_versions.find_diverging_offsets(left_spans, right_spans) == ((0, 10, 12), (1, 2, 5))


def test_a_version_replaced_by_another_is_reported() -> None:
    version_span = VersionSpan(partition=0, first=0, next=5, version=9, table_id="x", instead_of=3)

    assert joined_versions.list_replaced_versions(
        {"ads": (version_span, span(0, 5, 9, 9)), "shops": (span(0, 0, 9, 1),)}
    ) == {"ads": [3]}
