"""Conclusions from settlement curves: the age, the number of windows, or that there is none."""

from dataclasses import replace

from cutover.reconcile.report.drawings import curves as drawing
from cutover.reconcile.result.lateness_text import describe_log, describe_settlement, describe_stream
from cutover.reconcile.result.parts import AgreementPoint, Settlement, SettlementPoint, rate


def point(minutes: float, hits: int, of: int) -> SettlementPoint:
    return SettlementPoint(minutes=minutes, within=rate(hits, of), p50=0, p90=0, p99=0, largest=1 - hits / of)


def settlement(*stream: SettlementPoint, log: tuple[SettlementPoint, ...] = (), other_causes: int = 0) -> Settlement:
    final = stream[-1]
    return Settlement(
        closing_minutes=final.minutes,
        windows=final.within.of,
        other_causes=other_causes,
        log=log or stream,
        stream=stream,
        agreement=(AgreementPoint(minutes=final.minutes, windows=final.within.of, rows=10, different=0),),
    )


def plain(text: str) -> str:
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_dropped_records_are_never_waited_for() -> None:
    result = settlement(point(60, 24, 70), log=(point(60, 24, 70), point(1440, 51, 51)))

    stream, log = plain(describe_stream(result)), plain(describe_log(result))

    assert result.trusted is None
    assert "24 of 70 windows" in stream
    assert f"at most {result.final.within.upper * 100:.1f} %" in stream
    assert "no answer changes after that" in stream
    assert "complete from 1 d on: 51 of 51 windows" in log


def test_an_answer_is_trusted_from_the_age_on_at_which_it_stays_right() -> None:
    result = settlement(point(1, 100, 100), point(5, 98, 100), point(15, 99, 100), point(30, 998, 1_000))

    sentence = plain(describe_stream(result))

    assert result.trusted == point(15, 99, 100)
    assert "from 15 min after the end of its window on: 99 of 100 windows" in sentence
    assert "998 of 1,000 windows are right when they close, 30 min after their end" in sentence


def test_one_window_is_right_when_it_closes() -> None:
    said = plain(describe_stream(settlement(point(60, 1, 1))))

    assert "1 of 1 window is right when it closes, 1 h after its end" in said


def test_a_replay_concludes_nothing_about_windows_before_they_close() -> None:
    result = replace(settlement(point(1, 100, 100), point(30, 100, 100)), is_replay=True)

    assert result.trusted == result.final
    assert "from 30 min after the end" in plain(describe_stream(result))


def test_an_age_that_few_windows_have_reached_decides_nothing() -> None:
    result = settlement(point(60, 10, 10), log=(point(60, 10, 20), point(120, 9, 9)))
    incomplete = replace(result, log=(point(60, 10, 20), point(120, 8, 9)))

    assert result.trusted == result.final
    assert result.complete is None
    assert "Too few windows are old enough" in plain(describe_log(result))
    assert "at 2 h it is in 9 of 9 windows" in plain(describe_log(result))
    assert "at 1 h, the greatest" in plain(describe_log(incomplete))
    assert "10 of 20 windows" in plain(describe_log(incomplete))


def test_a_log_that_is_complete_at_a_young_age_alone_does_not_stay_so() -> None:
    """At 1 h 995 of 1,000 windows are complete, but one of the 10 that are 60 days old still misses a record."""
    result = settlement(point(60, 1_000, 1_000), log=(point(60, 995, 1_000), point(86_400, 9, 10)))

    assert result.complete is None
    assert "become complete and stay so: at 60 d" in plain(describe_log(result))


def test_one_window_is_no_evidence() -> None:
    result = settlement(point(60, 1, 1))

    assert result.trusted is None
    assert "can be trusted from" not in describe_stream(result)
    assert "1 of 1 window is right" in describe_stream(result)
    assert "Too few" in describe_log(result)


def test_windows_without_age_conclude_nothing_about_the_log() -> None:
    """The final epoch closed them before event time had reached that age."""
    result = replace(settlement(point(60, 20, 20)), log=())

    assert "Too few windows are old enough" in describe_log(result)
    assert [row[:4] for row in drawing.tabulate_settlement(result).rows] == [
        ("1\N{NARROW NO-BREAK SPACE}h", "no window that old", "", "20 of 20")
    ]
    assert "20 of 20 windows are right" in drawing.draw_settlement(result, 800)


def test_the_table_counts_the_windows_of_each_curve() -> None:
    result = settlement(point(60, 24, 70), log=(point(60, 24, 68), point(86_400, 51, 51)))

    rows = [tuple(map(plain, row)) for row in drawing.tabulate_settlement(result).rows]

    assert [row[:4] for row in rows] == [
        ("1 h", "24 of 68", "64.71 %", "24 of 70"),
        ("60 d", "51 of 51", "0 %", "as at 1 h"),
    ]


def test_windows_that_differ_for_another_cause_are_wrong_though_they_hold_their_records() -> None:
    stream = describe_stream(settlement(point(60, 7, 10), other_causes=3))

    assert "7 of 10 windows are right" in stream
    assert "3 windows differ for another cause" in stream
    assert "late records are dropped" not in stream


def test_a_replay_is_named_and_its_late_records_are_left_to_be_measured() -> None:
    result = settlement(point(60, 100, 100))

    sentence = describe_settlement(replace(result, is_replay=True, read_speed=65_712.3), "flights")

    assert "65,712 times faster" in sentence
    assert "`cutover lateness flights`" in sentence
    assert "replay" not in describe_settlement(replace(result, read_speed=1.2), "flights")


def test_speed_of_a_replay_is_unknown_without_log_timestamps() -> None:
    sentence = describe_settlement(replace(settlement(point(60, 100, 100)), is_replay=True), "flights")

    assert "unknown" in sentence
    assert "unless log timestamps do not show it" in sentence


def test_nothing_is_concluded_if_a_replay_is_not_ruled_out() -> None:
    result = replace(settlement(point(1, 100, 100), point(30, 100, 100)), is_replay=None)

    sentence = plain(describe_settlement(result, "flights"))

    assert (result.trusted, result.complete) == (None, None)
    assert "unknown whether the log was replayed" in sentence
    assert "100 of 100 windows are right when they close, 30 min after their end" in sentence
    assert "Waiting does not make" not in sentence
