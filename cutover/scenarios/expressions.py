"""The language of windows and triggers: `SequenceOf(RepeatUntil(AtPeriod(1 MINUTE), AtWatermark()), ...)` as a tree.

    call     = name {"." name} ["(" [argument {"," argument}] ")"] {"." name "(" ... ")"}
    argument = [name "="] (call | duration | number | text)
    duration = number [","] unit              2 MINUTES, or 2, MINUTES as the paper writes it
    unit     = millisecond, second, minute, hour or day; any case, also with an s
    text     = "..." in double or single quotes

What a name means is the business of `cutover.scenarios.words`.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from cutover.definition.durations import MICROSECONDS
from cutover.errors import DefinitionError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[0-9]{1,18}")
_TEXT = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_BLANK = re.compile(r"\s*")
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time, as `parse_duration` reads it."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text in quotes."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A name, with what stands in its parentheses, and the calls that hang on it by a point."""

    name: str  # with the points before the first parenthesis: `FixedWindows.of`
    at: int  # position in the text, from 1
    arguments: tuple["Node", ...] = ()
    named: tuple[tuple[str, "Node"], ...] = ()
    further: tuple["Call", ...] = ()


Node = Call | Duration | Text | int


@dataclass(frozen=True, slots=True)
class Parsed:
    """An expression, and the text behind it."""

    call: Call
    rest: str


def parse(text: str, *, of: str) -> Parsed:
    """Return the expression with which a text begins.

    Args:
        text: The text.
        of: Where it stands; named in the error.

    Raises:
        DefinitionError: It does not begin with one; with the position, what was expected and what stands there.
    """
    reader = _Reader(text, of)
    call = reader.call(0)
    return Parsed(call, text[reader.position :].strip())


@dataclass(slots=True)
class _Reader:
    text: str
    of: str
    position: int = 0

    def call(self, depth: int) -> Call:
        if depth > _DEEPEST:
            self._refuse(f"at most {_DEEPEST} expressions in one another")
        names, at = [self._name()], self.position
        while self._takes("."):
            names.append(self._name())
        at -= len(names[0]) - 1
        arguments, named = self._arguments(depth)
        further = []
        while self._takes("."):
            further.append(self._further(depth))
        return Call(name=".".join(names), at=at, arguments=arguments, named=named, further=tuple(further))

    def _further(self, depth: int) -> Call:
        name, at = self._name(), self.position
        arguments, named = self._arguments(depth)
        return Call(name=name, at=at - len(name) + 1, arguments=arguments, named=named)

    def _arguments(self, depth: int) -> tuple[tuple[Node, ...], tuple[tuple[str, Node], ...]]:
        plain: list[Node] = []
        named: list[tuple[str, Node]] = []
        if not self._takes("(") or self._takes(")"):
            return (), ()
        while True:
            name = self._argument_name()
            value = self._node(depth + 1)
            if name is None:
                plain.append(value)
            else:
                named.append((name, value))
            if self._takes(")"):
                return tuple(plain), tuple(named)
            if not self._takes(","):
                self._refuse("`,` or `)`")

    def _argument_name(self) -> str | None:
        before = self.position
        name = self._match(_NAME)
        if name is not None and self._takes("="):
            return name[0]
        self.position = before
        return None

    def _node(self, depth: int) -> Node:
        text = self._match(_TEXT)
        if text is not None:
            return Text(text[1] if text[2] is None else text[2])
        number = self._match(_NUMBER)
        if number is None:
            return self.call(depth)
        unit = self._unit()
        return int(number[0]) if unit is None else Duration(f"{number[0]} {unit}")

    def _unit(self) -> str | None:
        """Return the unit of a number, which may stand behind a comma; None if it has none."""
        before = self.position
        is_apart = self._takes(",")
        unit = self._match(_NAME)
        found = unit[0].lower().removesuffix("s") if unit is not None else None
        if found in MICROSECONDS:
            return found
        self.position = before
        if unit is not None and not is_apart:
            self._refuse(f"a unit ({', '.join(MICROSECONDS)})")
        return None

    def _name(self) -> str:
        found = self._match(_NAME)
        if found is None:
            self._refuse("a name")
        return found[0]

    def _takes(self, mark: str) -> bool:
        before = self.position
        self._match(_BLANK)
        if self.text.startswith(mark, self.position):
            self.position += len(mark)
            return True
        self.position = before
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        blank = _BLANK.match(self.text, self.position)
        found = pattern.match(self.text, blank.end() if blank else self.position)
        if found is not None:
            self.position = found.end()
        return found

    def _refuse(self, expected: str) -> NoReturn:
        rest = self.text[self.position :].strip()
        got = f"`{rest[:40]}`" if rest else "the end"
        msg = f"{self.of}: expected {expected} at character {self.position + 1} of `{self.text[:200]}`, got {got}."
        raise DefinitionError(msg)
