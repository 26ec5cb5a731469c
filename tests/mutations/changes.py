"""Mutations: a line of the kernel, changed in one place in a way that still compiles."""

import io
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = (
    "batch/plan",
    "batch/write",
    "cutover/definition/measures",
    "cutover/definition/windows",
    "cutover/lake/epochs",
    "cutover/records",
    "reconcile/attribution",
    "reconcile/comparison",
    "reconcile/gate",
    "reconcile/verdict",
    "reconcile/preconditions",
    "reconcile/verify/invariants",
    "streaming/microbatch",
    "streaming/sink",
)
"""What decides a number or a verdict."""

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_SQL = re.compile(
    r"SELECT|WHERE|CASE|FILTER|CAST|COALESCE|GROUP BY| AND | OR |IS NULL|IS NOT NULL|(sum|count|min|max)\("
)
_CHANGES = tuple(
    (re.compile(pattern), other)
    for pattern, other in (
        (r" <= ", " < "),
        (r" >= ", " > "),
        (r" < ", " <= "),
        (r" > ", " >= "),
        (r" == ", " != "),
        (r" != ", " == "),
        (r" <> ", " = "),
        (r" \+ ", " - "),
        (r" - ", " + "),
        (r" // ", " * "),
        (r" and ", " or "),
        (r" or ", " and "),
        (r" AND ", " OR "),
        (r" OR ", " AND "),
        (r" is not None", " is None"),
        (r" is None", " is not None"),
        (r"\bIS NOT NULL", "IS NULL"),
        (r"\bIS NULL", "IS NOT NULL"),
        (r"\bnot (?!in )", ""),
        (r"\bNOT (?!IN )", ""),
        (r" not in ", " in "),
        (r"\bmin\(", "max("),
        (r"\bmax\(", "min("),
        (r"\bsum\(", "max("),
        (r"\bany\(", "all("),
        (r"\ball\(", "any("),
        (r"(?<!strict=)\bTrue\b", "False"),  # a check of lengths that are equal is no result
        (r"\bFalse\b", "True"),
        (r"(?<![\w.\"'{])0(?![\w.])", "1"),
        (r"(?<!SELECT )(?<![\w.\"'{])1(?![\w.])", "2"),  # what an EXISTS selects means nothing
        (r"\bcontinue$", "break"),
    )
)
"""An operator, a bound, a condition or a constant, in Python or in the SQL of a text, and what stands there instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A line and what it becomes."""

    file: str
    line: int  # from 1
    original: str
    mutated: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n    - {self.original.strip()}\n    + {self.mutated.strip()}"


def find_code(source: str) -> dict[int, str]:
    """Find the lines that do something: no docstring, no import, no head of a function.

    Args:
        source: A module.

    Returns:
        By number, from 1, each such line with blanks in place of comments and of texts that are no SQL.
    """
    lines = source.splitlines(keepends=True)
    numbers: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not _SQL.search(token.string)):
            _blank(lines, token)
        if token.type not in _NO_CODE:
            statement.append(token)
        elif token.type == tokenize.NEWLINE:
            first_token = statement[0]
            if first_token.type != tokenize.STRING and first_token.string not in {
                "import",
                "from",
                "class",
                "def",
                "@",
            }:
                numbers |= {number for part in statement for number in range(part.start[0], part.end[0] + 1)}
            statement = []
    return {number: lines[number - 1] for number in sorted(numbers)}


def _blank(lines: list[str], token: tokenize.TokenInfo) -> None:
    """Put blanks where a token stands; the columns of all others stay."""
    (first_line, start), (last_line, end) = token.start, token.end
    for number in range(first_line, last_line + 1):
        line = lines[number - 1]
        start_column, end_column = start if number == first_line else 0, end if number == last_line else len(line) - 1
        lines[number - 1] = line[:start_column] + " " * (end_column - start_column) + line[end_column:]


def list_mutations(file: str, source: str) -> Iterator[Mutation]:
    """Yield every change of one place of one line.

    Args:
        file: The module's path in the repository.
        source: Its text.
    """
    lines = source.splitlines(keepends=True)
    for number, code in find_code(source).items():
        original = lines[number - 1]
        for pattern, other in _CHANGES:
            match = pattern.search(code)
            if match is not None:
                mutated = original[: match.start()] + other + original[match.end() :]
                yield Mutation(file=file, line=number, original=original, mutated=mutated)


def apply_mutation(mutation: Mutation, source: str) -> str:
    """Return a module's text with the line as it is broken."""
    lines = source.splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.mutated
    return "".join(lines)


def compiles(mutation: Mutation, source: str) -> bool:
    """Return whether the mutated module still compiles."""
    try:
        compile(apply_mutation(mutation, source), mutation.file, "exec")
    except SyntaxError:
        return False
    return True


def list_sources(root: Path = ROOT) -> dict[str, str]:
    """Return the text of each module of the kernel by its path in the repository, or in a copy."""
    files = sorted(path for room in KERNEL for path in (root / room).rglob("*.py"))
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files}


def draw(seed: int, count: int, root: Path = ROOT) -> list[Mutation]:
    """Return that many mutations that compile, of different lines, each line as likely as any other."""
    sources = list_sources(root)
    by_line: dict[tuple[str, int], list[Mutation]] = {}
    for file, source in sources.items():
        for mutation in list_mutations(file, source):
            by_line.setdefault((file, mutation.line), []).append(mutation)
    dice = random.Random(seed)  # noqa: S311 -- a draw that can be repeated
    mutations: list[Mutation] = []
    for line in dice.sample(sorted(by_line), len(by_line)):
        fitting = [mutation for mutation in by_line[line] if compiles(mutation, sources[line[0]])]
        mutations += [dice.choice(fitting)] if fitting else []
        if len(mutations) == count:
            break
    return mutations
