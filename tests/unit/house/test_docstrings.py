"""Public docstrings add information: a sentence that only repeats the words of its signature is noise."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.suite.sources import parse_source

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("cutover", "streaming", "batch", "reconcile", "infra", "samples", "dags")
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
SMALL = re.compile(
    r"an?|all|any|and|are|as|at|be|by|each|every|for|from|ha(s|ve)|i[nst]|its|o[fnr]|one|th(at|e|ere|is)|to|which|with"
)
ENDINGS = ("ings", "ing", "es", "ed", "s", "d", "e")
LEAST = 3  # words that the signature does not contain


def stem(word: str) -> str:
    """Stem a word: `closes`, `closed` and `closing` are one."""
    low = word.lower()
    return next((low.removesuffix(end) for end in ENDINGS if low.endswith(end) and len(low) > len(end) + 2), low)


def own_words(node: ast.FunctionDef | ast.AsyncFunctionDef, sentence: str) -> set[str]:
    """Select words of a sentence that its signature does not contain, without small ones."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    known_words = {
        stem(word) for name in (node.name, *(argument.arg for argument in arguments)) for word in WORD.findall(name)
    }
    sentence_words = {stem(word) for word in re.findall(r"\w+", sentence)[1:] if not SMALL.fullmatch(word)}
    return sentence_words - known_words


def sentences() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield each public function of the product whose docstring is one sentence that begins with "Return"."""
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        for node in ast.walk(parse_source(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                text = ast.get_docstring(node) or ""
                if re.match(r"Returns? ", text) and "\n\n" not in text:
                    yield f"{file.relative_to(ROOT)}: {node.name}", node, text


def test_no_public_docstring_returns_the_words_of_its_name() -> None:
    empty = [f"{place}: {text}" for place, node, text in sentences() if len(own_words(node, text)) < LEAST]

    # Say the shape, the unit, a bound, an error, the source; or what the function does, in place of "Return".
    assert empty == []
