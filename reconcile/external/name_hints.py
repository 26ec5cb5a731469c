"""Hints for columns of two tables whose names look alike: other case, blanks at an end, characters that nobody sees."""

import shlex
import unicodedata
from collections.abc import Iterable, Iterator


def find_like_names(left: Iterable[str], right: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a name that only the expected side has and the only one of the actual side that looks like it."""
    ours, theirs = dict.fromkeys(left), dict.fromkeys(right)
    alike: dict[str, list[str]] = {}
    if ours.keys() - theirs.keys():
        for name in theirs:
            alike.setdefault(_fold(name), []).append(name)
    for name in ours:
        others = [] if name in theirs else alike.get(_fold(name), [])
        if len(others) == 1 and others[0] not in ours:
            yield name, others[0]


def format_map_options(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the options that make such names one, as a shell takes them."""
    return " ".join(f"--map {shown(f'{ours}={theirs}')}" for ours, theirs in pairs)


def _fold(name: str) -> str:
    """Return a name without case, without what cannot be seen, and with one blank for each run."""
    seen = "".join(
        character
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character) not in {"Cf", "Cc"}
    )
    return " ".join(seen.split()).casefold()


def shown(text: str) -> str:
    """Return a text as one word of bash, in which what cannot be seen is escaped."""
    if all(character == " " or (character.isprintable() and not character.isspace()) for character in text):
        return shlex.quote(text)
    body = "".join(
        character
        if character.isprintable() and (character == " " or not character.isspace()) and character not in "'\\"
        else _escape(character)
        for character in text
    )
    return f"$'{body}'"


def _escape(character: str) -> str:
    return f"\\U{ord(character):08x}"
