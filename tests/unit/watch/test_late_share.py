"""The share of late records and the lag of a watermark, where there are no records, and behind the last window."""

from dataclasses import replace

from cutover.reconcile.cli.watch import describe_head
from cutover.reconcile.watch.status import describe_late_share, make_status
from tests.support.history.watch_facts import make_epoch, make_facts


def plain(text: str) -> str:
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_late_share_is_that_of_records_and_not_of_epochs() -> None:
    status = make_status(make_facts(epochs=(make_epoch(counts={"accepted": 3, "late": 1}),)))

    assert plain(describe_late_share(status)) == "25 % in the newest 1 epoch"


def test_no_share_is_claimed_where_no_record_counts() -> None:
    """An epoch of records that were all filtered has no late share: 0 % would be good news."""
    filtered = make_status(make_facts(epochs=(make_epoch(counts={"filtered": 9}),)))
    young = make_status(make_facts(epochs=()))

    assert filtered.late_share is None
    assert "no record counts in the newest 1 epoch" in describe_late_share(filtered)
    assert describe_late_share(young) == "none before the first epoch"


def test_a_watermark_behind_the_last_window_is_no_lag_below_zero() -> None:
    live = make_epoch(max_event={0: 100_000_000}, watermark_after=90_000_000)
    final = replace(live, watermark_after=9_000_000_000, final=True)

    assert make_status(make_facts(epochs=(live,))).watermark_lag_seconds == 10
    for newest in (final, replace(final, epoch=final.epoch + 1, final=False)):
        closed = make_status(make_facts(epochs=(newest,)))
        assert closed.watermark_lag_seconds is None
        assert not any("behind it" in str(line) for line in describe_head(closed))
