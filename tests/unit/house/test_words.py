"""The words in names: each is plain, or one of ours that the GLOSSARY explains. A new one makes its author choose."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("cutover", "streaming", "batch", "reconcile", "infra", "samples", "dags")
PLAIN = Path(__file__).with_name("plain_words.txt")
GLOSSARY = ROOT / "docs" / "GLOSSARY.md"
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
ENDINGS = ("", "s", "es", "d", "ed", "ing", "ings")


def words(text: str) -> list[str]:
    """Return the words of a name, in lower case: `TopicID` and `topic_id` have the same."""
    return [word.lower() for word in WORD.findall(text)]


def glossary() -> set[str]:
    """Return the words of the first column of every table of the GLOSSARY."""
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return {word for row in rows for word in words(row)}


def names() -> Iterator[tuple[str, str]]:
    """Yield each name of a module, a class or a function of the product, with its file."""
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        place = str(file.relative_to(ROOT))
        yield file.stem, place
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, place


def base_of(word: str, known: set[str]) -> str | None:
    """Return the known word that a word is a form of; None if there is none."""
    stems = [word.removesuffix(ending) for ending in ENDINGS if word.endswith(ending)]
    return next((form for stem in stems for form in (stem, f"{stem}e") if form in known), None)  # quoting: quote


def test_every_word_of_a_name_is_plain_or_in_the_glossary() -> None:
    known = {*PLAIN.read_text(encoding="utf-8").split(), *glossary()}
    unknown = defaultdict(set)
    for name, place in names():
        for word in words(name):
            if base_of(word, known) is None:
                unknown[word].add(f"{name} in {place}")

    # Another name; a row in docs/GLOSSARY.md if the word is ours; a line in plain_words.txt if every reader knows it.
    assert dict(unknown) == {}


def test_plain_words_are_in_order_and_none_is_in_the_glossary_too() -> None:
    plain = PLAIN.read_text(encoding="utf-8").split()

    assert plain == sorted(set(plain))
    assert set(plain) & glossary() == set()
