"""Whether a command printed what a runbook shows: numbers stand for any number, `...` for any text."""

import re

_TOKEN = re.compile(r"(\.\.\.)|(\d(?:[\d,:]|\.(?!\.\.))*)|(\s+)")
_ANY_NUMBER = r"\d[\d,.:]*"


def find_missing(expected: tuple[str, ...], printed: str) -> str | None:
    """Return the first expected line that was not printed behind those before it; None if all were.

    Args:
        expected: Lines as a page shows them. A number in them stands for any number (also of a date or a time), `...`
            for any text, several blanks for any blanks. A line may stand anywhere in a printed line; lines that the
            page does not show may stand between.
        printed: Output of the command.
    """
    printed_lines = iter(printed.splitlines())
    for line in expected:
        pattern = _compile(line)
        if not any(pattern.search(item) for item in printed_lines):
            return line
    return None


def _compile(line: str) -> re.Pattern[str]:
    found, at = "", 0
    text = line.strip()
    for token in _TOKEN.finditer(text):
        found += re.escape(text[at : token.start()])
        found += ".*" if token[1] else _ANY_NUMBER if token[2] else r"\s+"
        at = token.end()
    return re.compile(found + re.escape(text[at:]))
