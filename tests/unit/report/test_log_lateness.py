"""The lateness of a log on the page, in the pull request and in words; values of keys stay text."""

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from cutover.reconcile.report import files, page
from cutover.reconcile.result.lateness_text import describe_shares, describe_source, name_lateness, name_segment
from cutover.reconcile.result.measurements import (
    LatenessCount,
    LatenessQuantiles,
    LatenessSegment,
    LateShares,
    LateSource,
    LogLateness,
)
from cutover.reconcile.result.report import Report
from tests.support.history.reconciliations import flights

HOSTILE = "a|b`<script>alert(1)</script>[x](http://e)\n# @all *b* \x1b[31m\0"
LENGTHS = LatenessQuantiles(p50=0.0, p90=60.0, p99=3_600.0, p999=7_200.0, largest=90_000.0)
SHARES = LateShares(pairs=1_000, at_real_speed=25, as_read=2, pace=1.0)
SEGMENT = LatenessSegment(
    column="shop", value="a", records=100, lateness=LENGTHS, histogram=(), late=24, late_as_read=2
)
SOURCE = LateSource(column="shop", value=HOSTILE, late=24, late_share=0.96, share=0.1)


def measured(value: str | None) -> Report:
    """Build a comparison with the lateness of its log, in which only one value is late."""
    log_lateness = LogLateness(
        pipeline="flights",
        at="2026-11-24T12:00:00Z",
        result_fingerprint="r",
        lateness_fingerprint="l",
        version=0,
        epoch=41,
        epochs=42,
        records=1_000,
        lateness=LENGTHS,
        histogram=(LatenessCount(from_seconds=0.0, to_seconds=0.0, records=1_000),),
        shares=SHARES,
        segments=(
            replace(SEGMENT, column=None, value="0", records=900, late=1, late_as_read=0),
            replace(SEGMENT, value=value),
        ),
        sources=(replace(SOURCE, value=value),),
        notes=("Event time went by 900 times faster than log time.",),
        gone={},
    )
    return replace(flights(), log_lateness=log_lateness)


def test_page_and_pull_request_show_late_sources_and_effects_of_a_replay() -> None:
    result = measured("north")

    for rendered in (page.render_page(result), files.render_markdown(result)):
        for text in ("2.5", "0.2", "25 records", "shop=north: 96", "partition 0"):
            assert text in rendered.replace("&#61;", "=").replace("&#58;", ":")
    assert "900 times faster" in page.render_page(result)


@pytest.mark.parametrize("value", [HOSTILE, None, "null", ""])
def test_a_value_of_a_key_remains_text(value: str | None) -> None:
    result = measured(value)

    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(files.render_markdown(result))
    for rendered in (page.render_page(result), html):
        assert "<script>alert" not in rendered
        assert "\x1b" not in rendered
        assert "\0" not in rendered
    assert "<a " not in html


def test_an_unmeasured_log_names_the_command() -> None:
    assert "cutover lateness flights" in page.render_page(flights())
    assert "Late share" not in files.render_markdown(flights())


def test_it_round_trips_through_the_published_object() -> None:
    result = measured(HOSTILE)

    assert Report.from_json(result.to_json()) == result


def test_log_timestamps_of_a_load_give_no_real_speed() -> None:
    result = measured("north")
    assert result.log_lateness is not None
    for pace in (None, 900.0):
        loaded = replace(result, log_lateness=replace(result.log_lateness, shares=replace(SHARES, pace=pace)))

        assert describe_shares(replace(SHARES, pace=pace)).startswith("Late share: unknown at real speed")
        for rendered in (page.render_page(loaded), files.render_markdown(loaded)):
            assert "(25 records)" not in rendered
            assert rendered.count("unknown") >= 4


def test_a_log_without_a_record_in_a_window_has_no_late_share() -> None:
    none = LateShares(pairs=0, at_real_speed=0, as_read=0, pace=1.0)

    assert describe_shares(none) == "Late share: no record counts in a window."


def test_lateness_is_described_in_words() -> None:
    assert describe_shares(SHARES).replace("\N{NARROW NO-BREAK SPACE}", " ") == (
        "Late share: 2.5 % at real speed (25 records), 0.2 % as the epochs read them (2), of 1,000 records in windows."
    )
    assert describe_source(replace(SOURCE, value=None)).startswith("shop=null: 96")
    assert name_segment(replace(SOURCE, column=None, value="right 2")) == "partition right 2"
    bins = ((0.0, 0.0), (0.0, 60.0), (60.0, 300.0), (604_800.0, None))
    lateness_names = [name_lateness(LatenessCount(from_seconds=low, to_seconds=high, records=1)) for low, high in bins]
    assert [name.replace("\N{NARROW NO-BREAK SPACE}", " ") for name in lateness_names] == [
        "not behind",
        "0 s to 1 min",
        "1 min to 5 min",
        "7 d and more",
    ]
    assert LateShares(pairs=0, at_real_speed=0, as_read=0, pace=None).real_share == 0.0
