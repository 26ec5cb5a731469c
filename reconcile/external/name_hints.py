"""Hints for columns of two tables whose names look alike: other case, blanks at an end, invisible characters."""

import shlex
import unicodedata
from collections.abc import Iterable, Iterator


def find_like_names(left: Iterable[str], right: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a name that only the expected side has and the only one of the actual side that looks like it."""
    expected_names, actual_names = dict.fromkeys(left), dict.fromkeys(right)
    names_by_fold: dict[str, list[str]] = {}
    if expected_names.keys() - actual_names.keys():
        for name in actual_names:
            names_by_fold.setdefault(_fold(name), []).append(name)
    for name in expected_names:
        like_names = [] if name in actual_names else names_by_fold.get(_fold(name), [])
        if len(like_names) == 1 and like_names[0] not in expected_names:
            yield name, like_names[0]


def format_map_options(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the options that make such names one, as a shell takes them."""
    return " ".join(f"--map {quote_word(f'{expected_name}={actual_name}')}" for expected_name, actual_name in pairs)


def _fold(name: str) -> str:
    """Return a name without case, without what cannot be seen, and with one blank for each run."""
    visible = "".join(
        character
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character) not in {"Cf", "Cc"}
    )
    return " ".join(visible.split()).casefold()


def quote_word(text: str) -> str:
    """Return a text as one word of bash, with invisible characters escaped."""
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
