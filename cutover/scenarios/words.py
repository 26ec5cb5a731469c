"""What the names in a scenario's expressions mean: windows, triggers, and remarks for people behind them.

Behind a complete expression a remark may follow; it begins with `,`, `;`, `:` or `(` and is not read, with one
exception: `one-minute micro-batches` (or another number and unit) says where epochs end. A remark that holds another
trigger is refused, since what looks like an instruction must not be skipped.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from cutover.definition.durations import MICROSECONDS, parse_duration
from cutover.definition.triggers import (
    DEFAULT,
    AfterCount,
    AtWatermark,
    EachEpoch,
    Every,
    Once,
    Repeat,
    RepeatUntil,
    Sequence,
    Trigger,
    Until,
)
from cutover.definition.windows import Daily, Global, Sessions, Sliding, Window
from cutover.errors import DefinitionError
from cutover.scenarios.expressions import Call, Duration, Node, Text, parse

_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10, "fifteen": 15, "thirty": 30}
_MICRO_BATCHES = re.compile(
    rf"\b({'|'.join(_NUMBERS)}|[0-9]{{1,9}})[- ](millisecond|second|minute|hour|day)s?[- ]micro-?batch"
)
_HUNG_ON = {
    "withOffset": "offset",
    "every": "every",
    "withTimeZone": "zone",
    "withEarlyFirings": "early",
    "withLateFirings": "late",
}
_CALLED = re.compile(r"([A-Za-z_.]+)\s*\(")


@dataclass(frozen=True, slots=True)
class Asked:
    """A trigger as a scenario asks for it."""

    trigger: Trigger
    epoch_period: str | None  # of a remark such as `one-minute micro-batches`


def window(text: str) -> Window:
    """Return the window of a text such as `FixedWindows.of(2 MINUTES)`.

    Raises:
        DefinitionError: A word is unknown, or what stands in its parentheses does not fit.
    """
    parsed = parse(text, of="window")
    _remark(parsed.rest, "window", text)
    return _Words("window", text, WINDOWS).window(parsed.call)


def trigger(text: str) -> Asked:
    """Return the trigger of a text such as `Repeat(AtPeriod(1 MINUTE)), aligned to processing-time minutes`.

    `default` is `Repeat(AtWatermark())`; it may say so itself: `default = Repeat(AtWatermark())`.

    Raises:
        DefinitionError: A word is unknown, what stands in its parentheses does not fit, or it can never fire.
    """
    words = _Words("trigger", text, TRIGGERS)
    parsed = parse(text, of="trigger")
    found = words.trigger(parsed.call)
    rest = parsed.rest
    if parsed.call.name == "default" and rest.startswith("="):
        said = parse(rest.removeprefix("="), of="trigger")
        if words.trigger(said.call) != DEFAULT:
            words.refuse(parsed.call, f"`default` to be {DEFAULT}", f"`{rest}`")
        rest = said.rest
    return Asked(found, _remark(rest, "trigger", text))


def _remark(rest: str, field: str, text: str) -> str | None:
    """Return the epoch period that a remark gives; refuse what is no remark."""
    if rest and rest[0] not in ",;:(":
        msg = f"{field}: expected the end, or a remark after `,`, `;`, `:`, behind the expression of `{text[:200]}`, "
        msg += f"got `{rest[:40]}`."
        raise DefinitionError(msg)
    called = next((word for word in _CALLED.findall(rest) if word in {*TRIGGERS, *WINDOWS}), None)
    if called is not None:
        msg = f"{field}: expected one expression, got a second one, `{called}`, behind it in `{text[:200]}`.\n"
        msg += "Hint: SequenceOf(...) puts triggers one after the other."
        raise DefinitionError(msg)
    found = _MICRO_BATCHES.search(rest)
    return None if found is None else f"{_NUMBERS.get(found[1], found[1])} {found[2]}"


@dataclass(frozen=True, slots=True)
class _Words:
    """One text that is being read; says where a word stands that does not fit."""

    field: str
    text: str
    known: Mapping[str, object]

    def window(self, call: Call) -> Window:
        make = WINDOWS.get(call.name)
        if make is None:
            self.refuse_word(call)
        return make(self, call)

    def trigger(self, node: Node) -> Trigger:
        if not isinstance(node, Call):
            msg = f"trigger: expected a trigger in parentheses of `{self.text[:200]}`, got {_shown(node)}."
            raise DefinitionError(msg)
        make = TRIGGERS.get(node.name)
        if make is None:
            self.refuse_word(node)
        return make(self, node)

    def given(self, call: Call, *names: str, needed: int | None = None) -> dict[str, Node]:
        """Return the arguments of a call by name, in order or named; `needed` of them must be there (default: all)."""
        if len(call.arguments) > len(names):
            self.refuse(call, f"at most {len(names)} argument(s)", str(len(call.arguments)))
        found = dict(zip(names, call.arguments, strict=False))
        for name, value in (*call.named, *(self._hung_on(part) for part in call.further)):
            if name not in names or name in found:
                expected = f"each of {', '.join(names)} at most once" if names else "no named argument"
                self.refuse(call, expected, f"`{name}=`")
            found[name] = value
        for name in names[: len(names) if needed is None else needed]:
            if name not in found:
                self.refuse(call, f"`{name}` in its parentheses", "nothing")
        return found

    def _hung_on(self, part: Call) -> tuple[str, Node]:
        """Return a call such as `.withOffset(1 HOUR)` as the named argument that it stands for."""
        if part.name not in _HUNG_ON:
            known = ", ".join(_HUNG_ON)
            self.refuse(part, f"one of {known} behind a point", f"the unknown word `{part.name}`")
        if len(part.arguments) != 1 or part.named:
            self.refuse(part, "one argument", str(len(part.arguments) + len(part.named)))
        return _HUNG_ON[part.name], part.arguments[0]

    def duration(self, call: Call, node: Node) -> str:
        if not isinstance(node, Duration):
            self.refuse(call, "a duration such as `2 MINUTES`", _shown(node))
        return node.text

    def micros(self, call: Call, node: Node) -> int:
        return parse_duration(self.duration(call, node), of=f"{self.field}: {call.name}")

    def refuse_word(self, call: Call) -> NoReturn:
        close = get_close_matches(call.name, self.known, n=1, cutoff=0.5)
        msg = f"{self.field}: unknown word `{call.name}` at character {call.at} of `{self.text[:200]}`: "
        msg += f"expected one of {', '.join(self.known)}."
        raise DefinitionError(msg + (f"\nHint: did you mean `{close[0]}`?" if close else ""))

    def refuse(self, call: Call, expected: str, got: str) -> NoReturn:
        place = f"`{call.name}` at character {call.at} of `{self.text[:200]}`"
        msg = f"{self.field}: {place}: expected {expected}, got {got}."
        raise DefinitionError(msg)


def _shown(node: Node) -> str:
    match node:
        case Call(name=name):
            return f"`{name}`"
        case Duration(text=text) | Text(text=text):
            return f"`{text}`"
        case number:
            return str(number)


def _fixed(words: _Words, call: Call) -> Window:
    given = words.given(call, "size", "offset", "zone", needed=1)
    size = words.micros(call, given["size"])
    if "zone" in given and size == MICROSECONDS["day"]:
        return _days(words, call, given)
    if "zone" in given:
        words.refuse(call, "windows of 1 day, since a time zone is given", _shown(given["size"]))
    return Sliding(size=size, every=size, offset=words.micros(call, given.get("offset", _NOTHING)))


def _sliding(words: _Words, call: Call) -> Window:
    given = words.given(call, "size", "every", "offset", needed=2)
    size, every = words.micros(call, given["size"]), words.micros(call, given["every"])
    return Sliding(size=size, every=every, offset=words.micros(call, given.get("offset", _NOTHING)))


def _calendar(words: _Words, call: Call) -> Window:
    given = words.given(call, "days", "zone", "offset", needed=2)
    if given["days"] != 1:
        words.refuse(call, "windows of 1 day", _shown(given["days"]))
    return _days(words, call, given)


def _daily(words: _Words, call: Call) -> Window:
    return _days(words, call, words.given(call, "zone", "offset", needed=1))


def _days(words: _Words, call: Call, given: Mapping[str, Node]) -> Window:
    zone = given["zone"]
    if not isinstance(zone, Text):
        words.refuse(call, 'a time zone in quotes, such as "Europe/Berlin"', _shown(zone))
    return Daily(zone=zone.text, offset=words.duration(call, given.get("offset", _NOTHING)))


def _sessions(words: _Words, call: Call) -> Window:
    return Sessions(words.duration(call, words.given(call, "gap")["gap"]))


def _global(words: _Words, call: Call) -> Window:
    words.given(call)
    return Global()


def _every(words: _Words, call: Call) -> Trigger:
    return Every(words.duration(call, words.given(call, "period")["period"]))


def _count(words: _Words, call: Call) -> Trigger:
    rows = words.given(call, "rows")["rows"]
    if not isinstance(rows, int):
        words.refuse(call, "a number of rows", _shown(rows))
    return AfterCount(rows)


def _at_watermark(words: _Words, call: Call) -> Trigger:
    given = {name: words.trigger(node) for name, node in words.given(call, "early", "late", needed=0).items()}
    return AtWatermark(early=given.get("early"), late=given.get("late"))


def _each_epoch(words: _Words, call: Call) -> Trigger:
    words.given(call)
    return EachEpoch()


def _repeat(words: _Words, call: Call) -> Trigger:
    return Repeat(words.trigger(words.given(call, "of")["of"]))


def _until(words: _Words, call: Call) -> Trigger:
    return Until(*_of_and_until(words, call))


def _repeat_until(words: _Words, call: Call) -> Trigger:
    return RepeatUntil(*_of_and_until(words, call))


def _of_and_until(words: _Words, call: Call) -> tuple[Trigger, Once]:
    given = words.given(call, "of", "until")
    until = words.trigger(given["until"])
    if isinstance(until, (Repeat, Until, Sequence)):
        words.refuse(call, "an end that fires once (AtWatermark, AtPeriod, AtCount, EachEpoch)", _shown(given["until"]))
    return words.trigger(given["of"]), until


def _sequence(words: _Words, call: Call) -> Trigger:
    words.given(call, *(str(position) for position in range(len(call.arguments))))
    return Sequence(*(words.trigger(part) for part in call.arguments))


def _default(words: _Words, call: Call) -> Trigger:
    words.given(call)
    return DEFAULT


_NOTHING = Duration("0 seconds")

WINDOWS: Mapping[str, Callable[[_Words, Call], Window]] = {
    "FixedWindows.of": _fixed,
    "SlidingWindows.of": _sliding,
    "Sessions.withGapDuration": _sessions,
    "GlobalWindow": _global,
    "GlobalWindows": _global,
    "CalendarWindows.days": _calendar,
    "Fixed": _fixed,
    "Sliding": _sliding,
    "Sessions": _sessions,
    "Global": _global,
    "Daily": _daily,
}
"""The words of the paper and of Beam, then those of a definition."""

TRIGGERS: Mapping[str, Callable[[_Words, Call], Trigger]] = {
    "default": _default,
    "AtWatermark": _at_watermark,
    "AtPeriod": _every,
    "AtCount": _count,
    "Repeat": _repeat,
    "RepeatUntil": _repeat_until,
    "SequenceOf": _sequence,
    "Every": _every,
    "AfterCount": _count,
    "EachEpoch": _each_epoch,
    "Until": _until,
    "Sequence": _sequence,
}
"""The words of the paper, then those of a definition."""
