"""What is concluded from settlement curves: from which age on, of how many windows, or that nothing is."""

from dataclasses import replace

from cutover.reconcile.result.rates import rate
from cutover.reconcile.result.settlement import AgreementPoint, Settlement, SettlementPoint
from cutover.reconcile.result.settlement_text import describe_log, describe_settlement, describe_stream


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
    found = settlement(point(60, 24, 70), log=(point(60, 24, 70), point(1440, 51, 51)))

    stream, log = plain(describe_stream(found)), plain(describe_log(found))

    assert found.trusted is None
    assert "24 of 70 windows" in stream
    assert f"at most {found.final.within.upper * 100:.1f} %" in stream
    assert "every age after it" in stream
    assert "complete from 1 d on: 51 of 51 windows" in log


def test_an_answer_is_trusted_from_the_age_on_at_which_it_stays_right() -> None:
    found = settlement(point(1, 100, 100), point(5, 98, 100), point(15, 99, 100), point(30, 998, 1_000))

    said = plain(describe_stream(found))

    assert found.trusted == point(15, 99, 100)
    assert "from 15 min after the end of its window on: 99 of 100 windows" in said
    assert "998 of 1,000 windows when they close, 30 min after their end" in said


def test_an_age_that_few_windows_have_reached_decides_nothing() -> None:
    found = settlement(point(60, 10, 10), log=(point(60, 10, 20), point(120, 9, 9)))

    assert found.trusted == found.final
    assert found.complete is None
    assert "10 of 20 windows that are 1 h old" in plain(describe_log(found))


def test_one_window_is_no_evidence() -> None:
    found = settlement(point(60, 1, 1))

    assert found.trusted is None
    assert "can be trusted from" not in describe_stream(found)
    assert "1 of 1 window holds" in describe_stream(found)
    assert "Too few" in describe_log(found)


def test_windows_that_differ_for_another_cause_are_named() -> None:
    assert "3 windows of these differ for another cause" in describe_stream(
        settlement(point(60, 7, 10), other_causes=3)
    )


def test_a_replay_is_named_and_its_late_records_are_left_to_be_measured() -> None:
    found = settlement(point(60, 100, 100))

    said = describe_settlement(replace(found, is_replay=True, read_speed=65_712.3))

    assert "65,712 times faster" in said
    assert "`cutover lateness`" in said
    assert "unknown" in describe_settlement(replace(found, is_replay=True))
    assert "replay" not in describe_settlement(replace(found, read_speed=1.2))
