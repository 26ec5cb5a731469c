"""Points of a chart over epochs: one per epoch, or one for several consecutive ones if there are many."""

from cutover.reconcile.report import sections
from tests.support.history.watch_facts import make_epoch


def test_few_epochs_have_a_point_each() -> None:
    points = sections.list_epoch_points([make_epoch(number, records=10 + number, seconds=0.5) for number in range(3)])

    assert [(point.epoch, point.records, point.seconds) for point in points] == [
        (0, 10, 0.5),
        (1, 11, 0.5),
        (2, 12, 0.5),
    ]
    assert sections.list_epoch_points([]) == ()


def test_a_point_of_several_epochs_is_the_last_one_with_the_records_and_seconds_of_all() -> None:
    many = 2 * sections.POINTS_AT_MOST + 1

    points = sections.list_epoch_points(
        [make_epoch(number, records=1 + number % 3, seconds=0.25) for number in range(many)]
    )

    assert len(points) == -(-many // 3)
    assert [(point.epoch, point.records, point.seconds) for point in points[:2]] == [(2, 6, 0.75), (5, 6, 0.75)]
    assert (points[-1].epoch, sum(point.records for point in points)) == (many - 1, sum(1 + n % 3 for n in range(many)))


def test_epochs_have_a_point_each_up_to_the_limit() -> None:
    numbers = range(sections.POINTS_AT_MOST)

    assert [point.epoch for point in sections.list_epoch_points([make_epoch(number) for number in numbers])] == list(
        numbers
    )


def test_lag_is_from_the_newest_event_of_all_partitions_to_the_watermark_in_seconds() -> None:
    epoch = make_epoch(1, max_event={0: 5_000_000, 1: 9_000_000}, watermark_after=3_000_000)

    assert sections.list_epoch_points([epoch])[0].lag == 6.0
    assert sections.list_epoch_points([make_epoch(1, max_event={}, watermark_after=3_000_000)])[0].lag is None
    assert sections.list_epoch_points([make_epoch(1, max_event={0: 5_000_000}, watermark_after=None)])[0].lag is None
