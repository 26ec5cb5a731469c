"""Comparison of a command's output with a runbook: a number matches any number, `...` any text."""

import re

_TOKEN = re.compile(r"(\.\.\.)|(\d(?:[\d,:]|\.(?!\.\.))*)|(\s+)")
_ANY_NUMBER = r"\d[\d,.:]*"


def find_missing(expected: tuple[str, ...], printed: str) -> str | None:
    """Find the first expected line that was not printed after the previous ones; None if all were.

    Args:
        expected: Lines on a page. A number in them matches any number (also of a date or a time), `...` any text,
            blanks any blanks. A line may match a part of a printed line; other printed lines may be in between.
        printed: Output of the command.
    """
    printed_lines = iter(printed.splitlines())
    for line in expected:
        pattern = _compile(line)
        if not any(pattern.search(item) for item in printed_lines):
            return line
    return None


def _compile(line: str) -> re.Pattern[str]:
    pattern, position = "", 0
    text = line.strip()
    for token in _TOKEN.finditer(text):
        pattern += re.escape(text[position : token.start()])
        pattern += ".*" if token[1] else _ANY_NUMBER if token[2] else r"\s+"
        position = token.end()
    return re.compile(pattern + re.escape(text[position:]))
