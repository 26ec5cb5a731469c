"""The language of windows and triggers: what is read, what is a remark, and what is refused with its word and place."""

import pytest

from cutover.definition import (
    AfterCount,
    AtWatermark,
    Daily,
    EachEpoch,
    Every,
    Fixed,
    Global,
    Repeat,
    RepeatUntil,
    Sequence,
    Sessions,
    Sliding,
    Until,
)
from cutover.definition.triggers import DEFAULT, Trigger
from cutover.definition.windows import Window
from cutover.errors import DefinitionError
from cutover.scenarios import words

MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("GlobalWindow", Global()),
        ("GlobalWindows()", Global()),
        ("FixedWindows.of(2 MINUTES)", Fixed(minutes=2)),
        ("FixedWindows.of(2, MINUTES)", Fixed(minutes=2)),
        ("  FixedWindows . of ( 90   seconds ) ", Fixed(seconds=90)),
        ("FixedWindows.of(1 HOUR).withOffset(15 MINUTES)", Fixed(hours=1, offset="15 minutes")),
        ("Fixed(1 hour, offset=15 minutes)", Fixed(hours=1, offset="15 minutes")),
        ("SlidingWindows.of(10 MINUTES).every(1 MINUTE)", Sliding(size=10 * MINUTE, every=MINUTE)),
        ("SlidingWindows.of(10 MINUTES, 1 MINUTE)", Sliding(size=10 * MINUTE, every=MINUTE)),
        (
            "Sliding(3 days, every=2 days, offset=1 day)",
            Sliding(size=4320 * MINUTE, every=2880 * MINUTE, offset=1440 * MINUTE),
        ),
        ("Sessions.withGapDuration(1 MINUTE)", Sessions("1 minute")),
        ("Sessions(gap=30 seconds)", Sessions("30 second")),
        ("CalendarWindows.days(1).withTimeZone('Europe/Berlin')", Daily(zone="Europe/Berlin", offset="0 seconds")),
        ("FixedWindows.of(1 DAY).withTimeZone('Europe/Berlin')", Daily(zone="Europe/Berlin", offset="0 seconds")),
        ('Daily("UTC", offset=6 HOURS)', Daily(zone="UTC", offset="6 hour")),
        ("FixedWindows.of(2 MINUTES), as in the paper", Fixed(minutes=2)),
    ],
)
def test_window(text: str, window: Window) -> None:
    assert words.window(text) == window


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("default", DEFAULT),
        ("default = Repeat(AtWatermark())", DEFAULT),
        ("default: once, when all input is in (watermark -inf until then, then +inf)", DEFAULT),
        ("AtWatermark()", AtWatermark()),
        ("AtWatermark", AtWatermark()),
        (
            "AtWatermark(early=Every(1 minute), late=EachEpoch())",
            AtWatermark(early=Every("1 minute"), late=EachEpoch()),
        ),
        ("AtWatermark().withLateFirings(AtCount(1))", AtWatermark(late=AfterCount(1))),
        ("Repeat(AtPeriod(1 MINUTE)), aligned to processing-time minutes", Repeat(Every("1 minute"))),
        ("Repeat(AtPeriod(1, MINUTE))", Repeat(Every("1 minute"))),
        ("Repeat(AtCount(2)); (per key)", Repeat(AfterCount(2))),
        ("AfterCount(3)", AfterCount(3)),
        ("Until(AtCount(1), AtPeriod(30 SECONDS))", Until(AfterCount(1), Every("30 second"))),
        (
            "SequenceOf(RepeatUntil(AtPeriod(1 MINUTE), AtWatermark()), Repeat(AtWatermark()))",
            Sequence(RepeatUntil(Every("1 minute"), AtWatermark()), Repeat(AtWatermark())),
        ),
        ("Sequence(AfterCount(1), EachEpoch(), Every(2 hours))", Sequence(AfterCount(1), EachEpoch(), Every("2 hour"))),
    ],
)
def test_trigger(text: str, trigger: Trigger) -> None:
    assert words.trigger(text).trigger == trigger


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("default = Repeat(AtWatermark()), one-minute micro-batches; output for every window", "1 minute"),
        ("default, 30-second micro-batches", "30 second"),
        ("EachEpoch(), two hours micro-batches", "2 hour"),
        ("default, in batches", None),
    ],
)
def test_remark_may_say_where_epochs_end(text: str, period: str | None) -> None:
    assert words.trigger(text).epoch_period == period


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Repeat(AtPeriods(1 MINUTE))",
            r"unknown word `AtPeriods` at character 8 .* AtPeriod, .*\nHint: did you mean `AtPeriod`",
        ),
        ("Repeat(Often())", "unknown word `Often` at character 8"),
        ("repeat(AtWatermark())", r"unknown word `repeat` at character 1 .*\nHint: did you mean `Repeat`"),
        ("Repeat(AtCount(2)", r"expected `,` or `\)` at character 18 of .*, got the end"),
        ("Repeat(AtCount(2)))", r"expected the end, or a remark .* got `\)`"),
        ("Repeat(AtCount(2)) every minute", "expected the end, or a remark .* got `every minute`"),
        ("Repeat(AtCount(2)), Repeat(AtWatermark())", "expected one expression, got a second one, `Repeat`"),
        ("default = Repeat(AtCount(2))", "expected `default` to be"),
        ("Repeat()", "`Repeat` at character 1 .*: expected `of` in its parentheses, got nothing"),
        ("Repeat", "expected `of` in its parentheses, got nothing"),
        ("Repeat(AtCount(2), AtCount(3))", r"expected at most 1 argument\(s\), got 2"),
        ("Repeat(2)", "expected a trigger in parentheses of .*, got 2"),
        ("Repeat(1 MINUTE)", "expected a trigger in parentheses of .*, got `1 minute`"),
        ("Repeat('AtCount')", "expected a trigger in parentheses of .*, got `AtCount`"),
        ("AtCount(two)", "`AtCount` at character 1 .*: expected a number of rows, got `two`"),
        ("AtCount(2 MINUTES)", "expected a number of rows, got `2 minute`"),
        ("AtCount(0)", "expected at least one row, got 0"),
        ("AtPeriod(2)", "expected a duration such as `2 MINUTES`, got 2"),
        ("AtPeriod(2 MIN)", r"expected a unit \(millisecond, second, minute, hour, day\) .* got `MIN\)`"),
        ("AtPeriod(0 MINUTES)", "expected a period longer than nothing"),
        ("AtWatermark(soon=AtCount(1))", "expected each of early, late at most once, got `soon=`"),
        ("AtWatermark(AtCount(1), early=AtCount(2))", "expected each of early, late at most once, got `early=`"),
        ("EachEpoch(3)", r"expected at most 0 argument\(s\), got 1"),
        ("AtWatermark().soon(AtCount(1))", "`soon` at character 15 .*: expected one of .* got the unknown word `soon`"),
        ("AtWatermark().withLateFirings()", "expected one argument, got 0"),
        ("AtCount(1).withOffset(1 MINUTE)", "expected each of rows at most once, got `offset=`"),
        ("RepeatUntil(AtCount(1), Repeat(AtCount(2)))", "expected an end that fires once"),
        ("SequenceOf()", "expected at least one trigger, got none"),
        ("SequenceOf(of=AtCount(1))", "expected no named argument, got `of=`"),
        ("SequenceOf(Repeat(AtCount(2)), AtWatermark())", "the second could never fire"),
        ("", "expected a name at character 1 of ``, got the end"),
        ("Repeat(" * 60 + "AtWatermark()" + ")" * 60, "expected at most 50 expressions in one another"),
    ],
)
def test_trigger_that_is_none_is_refused_with_its_word_and_place(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        words.trigger(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TumblingWindows.of(2 MINUTES)", "window: unknown word `TumblingWindows.of` at character 1"),
        ("FixedWindows(2 MINUTES)", r"unknown word `FixedWindows` .*\nHint: did you mean `FixedWindows.of`"),
        ("SlidingWindows.of(2 MINUTES)", "expected `every` in its parentheses, got nothing"),
        ("SlidingWindows.of(1 MINUTE).every(2 MINUTES)", "expected 0 < every <= size"),
        ("Sessions.withGapDuration(0 SECONDS)", "expected more than nothing"),
        ("FixedWindows.of(2 DAYS).withTimeZone('UTC')", "expected windows of 1 day"),
        ("CalendarWindows.days(2).withTimeZone('UTC')", "expected windows of 1 day, got 2"),
        ("Daily(Berlin)", 'expected a time zone in quotes, such as "Europe/Berlin", got `Berlin`'),
        ("Daily('Berlin')", "expected a name such as `Europe/Berlin`, got `Berlin`"),
        ("GlobalWindow, then FixedWindows.of(1 DAY)", "got a second one, `FixedWindows.of`"),
    ],
)
def test_window_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        words.window(text)
