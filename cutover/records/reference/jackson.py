"""Tokens of a JSON text as Spark's parser, Jackson, yields them with the options of `from_json`.

Beyond RFC 8259 it takes single quotes, `NaN` and `Infinity`. After an error a caller may go on, as Spark does: reading
continues behind the character that broke it, in the object or array where that was. So all state is as in Jackson's
`ReaderBasedJsonParser`: the name of a field is read together with the beginning of its value, and a string is read
when it is asked for, or skipped with the next token. Only a broken number at the end of Jackson's buffer, of about
4,000 characters, continues in another place there.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NoReturn

from cutover.records.parsing import limits
from cutover.records.parsing.parsed_record import JsonNumber, has_long_number

_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_SPACE = re.compile(r"[ \t\r\n]*")
_DIGITS = re.compile("[0-9]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "/": "/", "\\": "\\", "'": "'"}
_HEX = frozenset("0123456789abcdefABCDEF")
_MAX_TOKEN = 256  # characters of a wrong word that are read
_START_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PART_CATEGORIES = _START_CATEGORIES | {"Nd", "Mc", "Mn", "Cf"}
_IGNORABLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x9f]")


class BrokenJsonError(ValueError):
    """Text that is no JSON where it is read."""


class Token(Enum):
    """Kind of a token."""

    START_OBJECT = auto()
    END_OBJECT = auto()
    START_ARRAY = auto()
    END_ARRAY = auto()
    NAME = auto()
    STRING = auto()
    INT = auto()
    FLOAT = auto()
    TRUE = auto()
    FALSE = auto()
    NULL = auto()


_STARTS = (Token.START_OBJECT, Token.START_ARRAY)
_CLOSING = {"}": ("{", Token.END_OBJECT), "]": ("[", Token.END_ARRAY)}
_WORDS = {"t": ("true", Token.TRUE), "f": ("false", Token.FALSE), "n": ("null", Token.NULL)}


@dataclass(slots=True)
class _Scope:
    """Object, array or root that is open."""

    mark: str  # `{`, `[` or nothing
    values: int = 0
    name: str | None = None  # of the last field


class JsonTokens:
    """Reader of one text; `token` is the current one, None before the first and after the last."""

    def __init__(self, text: str) -> None:
        if not text.isascii() and _BEYOND_BMP.search(text):  # Java has two characters for one of these
            text = "".join(map(_split_character, text))
        self._text = text
        self._position = 0
        self._scopes = [_Scope("")]
        self._token: Token | None = None
        self._next: Token | None = None  # the value of the current name
        self._is_unread = False  # the current string
        self._value: Any = None

    @property
    def token(self) -> Token | None:
        """Current token."""
        return self._token

    @property
    def name(self) -> str | None:
        """Name of the field that the current token belongs to."""
        is_start = self._token in _STARTS and len(self._scopes) > 1
        return self._scopes[-2 if is_start else -1].name

    def advance(self) -> Token | None:
        """Read the next token.

        Raises:
            BrokenJsonError: The text is broken; the current token may remain.
        """
        if self._token is Token.NAME:
            token, self._next = self._next, None
            self._open(token)
            self._token = token
            return token
        if self._is_unread:
            self._is_unread = False
            self._read_string('"')
        mark = self._skip_space()
        if not mark:
            if len(self._scopes) > 1:
                self._fail("the text ends")
            self._token = None
            return None
        if mark in _CLOSING:
            return self._close(mark)
        scope = self._scopes[-1]
        scope.values += 1
        if scope.mark and scope.values > 1:
            if mark != ",":
                self._fail("expected a comma")
            mark = self._expect_more()
        if scope.mark == "{":
            self._read_name(scope, mark)
            return self._token
        token = self._begin_value(mark)
        self._open(token)
        self._token = token
        return token

    def _open(self, token: Token | None) -> None:
        if token in _STARTS:
            self._scopes.append(_Scope("{" if token is Token.START_OBJECT else "["))
            if len(self._scopes) - 1 > limits.MAX_DEPTH:
                self._fail("nested too deep")

    def _close(self, mark: str) -> Token:
        opening, token = _CLOSING[mark]
        if self._scopes[-1].mark != opening:
            self._fail("the wrong end")
        self._scopes.pop()
        self._token = token
        return token

    def skip_children(self) -> None:
        """Read to the end of an object or array that begins with the current token."""
        depth = 1 if self._token in _STARTS else 0
        while depth:
            token = self.advance()
            if token is None:
                return
            depth += (token in _STARTS) - (token in {Token.END_OBJECT, Token.END_ARRAY})

    def read_scalar(self) -> Any:
        """Return the value of the current token: None, bool, str, JsonNumber, or float (`NaN` and infinities)."""
        if self._token is Token.STRING and self._is_unread:
            self._is_unread = False
            self._value = self._read_string('"')
        if self._token in {Token.TRUE, Token.FALSE}:
            return self._token is Token.TRUE
        return None if self._token is Token.NULL else self._value

    def _read_name(self, scope: _Scope, mark: str) -> None:
        if mark not in _PLAIN:
            self._fail("expected a name")
        name = self._read_string(mark)
        if len(name) > limits.MAX_NAME:
            self._fail("a long name")
        scope.name = name
        self._token = Token.NAME
        if self._expect_more() != ":":
            self._fail("expected a colon")
        self._next = self._begin_value(self._expect_more())

    def _begin_value(self, mark: str) -> Token:
        if mark == '"':
            self._is_unread = True
            return Token.STRING
        if mark in {"{", "["}:
            return Token.START_OBJECT if mark == "{" else Token.START_ARRAY
        if mark in _WORDS:
            word, token = _WORDS[mark]
            self._match_word(word, 1)
            return token
        if mark.isdigit() and mark.isascii():
            return self._read_number(mark)
        if mark == "'":
            self._value = self._read_string("'")
            return Token.STRING
        return self._read_odd_value(mark)

    def _read_odd_value(self, mark: str) -> Token:
        if mark == "-":
            following = self._text[self._position : self._position + 1]
            if following.isdigit() and following.isascii():
                return self._read_number(mark)
        if mark in {"-", "+"}:
            self._value = float(f"{mark}inf")
            following = self._take()
            if following == "I":
                following = self._take()
                if following in {"N", "n"}:
                    self._match_word(f"{mark}INF" if following == "N" else f"{mark}Infinity", 3)
                    return Token.FLOAT
            self._fail("no number")
        if mark in {"N", "I"}:
            self._match_word("NaN" if mark == "N" else "Infinity", 1)
            self._value = float("nan" if mark == "N" else "inf")
            return Token.FLOAT
        if unicodedata.category(mark) in _START_CATEGORIES:
            self._skip_word(mark)
        return self._fail("no value")

    def _match_word(self, word: str, start: int) -> None:
        for place in range(start, len(word)):
            if self._text[self._position : self._position + 1] != word[place]:
                self._skip_word(word[:place])
                self._fail("no value")
            self._position += 1
        following = self._text[self._position : self._position + 1]
        if following >= "0" and following not in {"]", "}"} and _is_identifier_part(following):
            self._skip_word(word)
            self._fail("no value")

    def _skip_word(self, matched: str) -> None:
        length = len(matched)
        while self._position < len(self._text) and _is_identifier_part(self._text[self._position]):
            self._position += 1
            length += 1
            if length >= _MAX_TOKEN:
                return

    def _read_number(self, mark: str) -> Token:
        start = self._position - 1
        match = _NUMBER.match(self._text, start)
        text = "" if match is None else match[0]
        digits = text.lstrip("-")
        self._position = start + len(text)
        following = self._text[self._position : self._position + 1]
        if digits == "0" and following.isdigit() and following.isascii():
            self._fail("a leading zero")
        if following in {".", "e", "E"}:
            self._break_number(start, text, following, starts_with_zero=digits[:1] == "0")
        self._value = JsonNumber(text)
        if has_long_number(text):
            self._fail(f"a long number after {mark}")
        return Token.FLOAT if set(text) & set(".eE") else Token.INT

    def _break_number(self, start: int, text: str, following: str, *, starts_with_zero: bool) -> None:
        """Fail in a fraction or an exponent without digits; a complete number may be followed by a point."""
        if set(text) & set("eE") or (following == "." and "." in text):
            return
        place = self._position + 1
        if following != "." and self._text[place : place + 1] in {"+", "-"}:
            place += 1
        if starts_with_zero or place >= len(self._text):  # such a number is read character by character
            self._position = min(place + 1, len(self._text))
        else:  # reading goes on behind the first point or exponent
            first = next(mark for mark in (".", following) if mark in self._text[start : self._position + 1])
            self._position = self._text.index(first, start) + 1
        self._fail("an incomplete number")

    def _read_string(self, quote: str) -> str:
        """Read the string behind its first quote."""
        parts: list[str] = []
        while True:
            plain = _PLAIN[quote].match(self._text, self._position)
            parts.append("" if plain is None else plain[0])
            self._position += len(parts[-1])
            mark = self._take()
            if mark == quote:
                return _join_surrogates("".join(parts))
            if mark != "\\":
                self._fail("a broken string")
            escape = self._take()
            if escape == "u":
                parts.append(chr(int("".join(self._take_hex() for _ in range(4)), 16)))
            elif escape in _ESCAPES:
                parts.append(_ESCAPES[escape])
            else:
                self._fail("a broken escape")

    def _take_hex(self) -> str:
        digit = self._take()
        if digit not in _HEX:
            self._fail("a broken escape")
        return digit

    def _take(self) -> str:
        """Read a character.

        Raises:
            BrokenJsonError: The text has ended.
        """
        mark = self._text[self._position : self._position + 1]
        self._position += len(mark)
        return mark or self._fail("the text ends")

    def _skip_space(self) -> str:
        """Return the character after space, nothing at the end of the text."""
        space = _SPACE.match(self._text, self._position)
        self._position += 0 if space is None else len(space[0])
        mark = self._text[self._position : self._position + 1]
        self._position += len(mark)
        if mark and (mark < " " or mark == "/"):
            self._fail("a wrong space")
        return mark

    def _expect_more(self) -> str:
        return self._skip_space() or self._fail("the text ends")

    def _fail(self, problem: str) -> NoReturn:
        msg = f"{problem} at character {self._position}"
        raise BrokenJsonError(msg)


def _split_character(character: str) -> str:
    if character < "\U00010000":
        return character
    offset = ord(character) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def _is_identifier_part(character: str) -> bool:
    return unicodedata.category(character) in _PART_CATEGORIES or _IGNORABLE.match(character) is not None


def _join_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
