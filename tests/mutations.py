"""Break lines of the kernel, one at a time, and say which tests notice: `make mutations SEED=7 LINES=25`.

Works in two copies of what is committed, a line in each. Each line that is drawn is changed in one place, in a way that
still compiles; then the kinds of tests run, the quickest first, until one fails. A line that no test notices is named.
"""

import argparse
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

ROOT = Path(__file__).parents[1]
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
    "reconcile/judgement",
    "reconcile/preconditions",
    "reconcile/verify/invariants",
    "streaming/microbatch",
    "streaming/sink",
)
"""What decides a number or a verdict."""

_EARLIER = (
    ("tests/unit", "tests/spec"),
    ("tests/property",),
    ("tests/integration/reconcile", "tests/integration/records", "tests/integration/batch"),
    ("tests/integration/streaming", "tests/integration/verify", "tests/integration/lake"),
)
_REST = [f"--ignore={room}" for rooms in _EARLIER for room in rooms if room.count("/") > 1]

KINDS = (
    *((*rooms, "-n2") for rooms in _EARLIER),
    ("tests/faults", "tests/e2e", "tests/integration", "tests/dags", *_REST, "-n2"),
)
"""What `make test` runs, in steps, after the tests of the line's own room: most lines are noticed by those."""

TRIES = 2
"""Times that a kind of tests runs where what failed in it passes alone."""

_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # none: all that were named are long ones

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
        (r"\bTrue\b", "False"),
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
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n    - {self.before.strip()}\n    + {self.after.strip()}"


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
            first = statement[0]
            if first.type != tokenize.STRING and first.string not in {"import", "from", "class", "def", "@"}:
                numbers |= {number for part in statement for number in range(part.start[0], part.end[0] + 1)}
            statement = []
    return {number: lines[number - 1] for number in sorted(numbers)}


def _blank(lines: list[str], token: tokenize.TokenInfo) -> None:
    """Put blanks where a token stands; the columns of all others stay."""
    (first, start), (last, end) = token.start, token.end
    for number in range(first, last + 1):
        line = lines[number - 1]
        left, right = start if number == first else 0, end if number == last else len(line) - 1
        lines[number - 1] = line[:left] + " " * (right - left) + line[right:]


def list_mutations(file: str, source: str) -> Iterator[Mutation]:
    """Yield every change of one place of one line.

    Args:
        file: The module's path in the repository.
        source: Its text.
    """
    lines = source.splitlines(keepends=True)
    for number, code in find_code(source).items():
        before = lines[number - 1]
        for pattern, other in _CHANGES:
            found = pattern.search(code)
            if found is not None:
                after = before[: found.start()] + other + before[found.end() :]
                yield Mutation(file=file, line=number, before=before, after=after)


def apply_mutation(mutation: Mutation, source: str) -> str:
    """Return a module's text with the line as it is broken."""
    lines = source.splitlines(keepends=True)
    lines[mutation.line - 1] = mutation.after
    return "".join(lines)


def compiles(mutation: Mutation, source: str) -> bool:
    """Tell whether the broken module is Python still."""
    try:
        compile(apply_mutation(mutation, source), mutation.file, "exec")
    except SyntaxError:
        return False
    return True


def draw(seed: int, count: int) -> list[Mutation]:
    """Return that many mutations that compile, of different lines, each line as likely as any other."""
    files = sorted(path for room in KERNEL for path in (ROOT / room).rglob("*.py"))
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    by_line: dict[tuple[str, int], list[Mutation]] = {}
    for file, source in sources.items():
        for mutation in list_mutations(file, source):
            by_line.setdefault((file, mutation.line), []).append(mutation)
    dice = random.Random(seed)  # noqa: S311 -- a draw that can be repeated
    drawn: list[Mutation] = []
    for line in dice.sample(sorted(by_line), len(by_line)):
        fitting = [mutation for mutation in by_line[line] if compiles(mutation, sources[line[0]])]
        drawn += [dice.choice(fitting)] if fitting else []
        if len(drawn) == count:
            break
    return drawn


def find_notice(copy: Path, kinds: Sequence[Sequence[str]]) -> str | None:
    """Return the first test that fails in a copy of the repository, and fails again alone; None: all pass."""
    return next((failed for kind in kinds if (failed := find_failure(copy, kind))), None)


def find_failure(copy: Path, kind: Sequence[str]) -> str | None:
    """Return a test that fails twice, the second time alone: one that was only slow on a busy machine passes then."""
    for _ in range(TRIES):
        ended = run_tests(copy, *kind)
        if ended.returncode in _PASSED:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ended.stdout, re.MULTILINE)
        if failed is None:
            return f"exit {ended.returncode}: {ended.stdout[-300:]}"
        if run_tests(copy, failed[1]).returncode not in _PASSED:
            return failed[1]
    return None


def run_tests(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the repository until one fails."""
    command = [sys.executable, "-m", "pytest", "-x", "--timeout=300", "-p", "no:cacheprovider", *words]
    own = {**os.environ, "PYTHONPATH": str(copy)}  # what a test starts runs the broken code too
    return subprocess.run(
        command, cwd=copy, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def list_near(file: str, root: Path = ROOT) -> list[list[str]]:
    """Return the tests that are likely to notice a line: of each kind those that import its module, then of its room.

    Args:
        file: The module's path in the repository.
        root: Of the repository, or of a copy.
    """
    kinds = []
    for room, *kind in (("tests/unit tests/spec tests/property",), ("tests/integration", "-n2")):
        kinds.append([*_list_tests_of(file, room.split(), root), *kind])
        found = (root / room.split()[0] / part for part in Path(file).parts)
        kinds.append([*(str(folder.relative_to(root)) for folder in found if folder.is_dir()), *kind])
    return [kind for kind in kinds if kind and not kind[0].startswith("-")]


def _list_tests_of(file: str, rooms: Sequence[str], root: Path) -> list[str]:
    """Return the test files that import a module by its name."""
    *rest, name = Path(file).with_suffix("").parts
    parent = ".".join(["cutover", *rest[rest[:1] == ["cutover"] :]])
    imports = re.compile(rf"from {re.escape(parent)}(\.{name} import|\b import .*\b{name}\b)")
    found = (path for room in rooms for path in sorted((root / room).rglob("test_*.py")))
    return [str(path.relative_to(root)) for path in found if imports.search(path.read_text(encoding="utf-8"))]


def try_mutation(copy: Path, mutation: Mutation, kinds: Sequence[Sequence[str]]) -> str | None:
    """Break the line in a copy, return the test of these kinds that notices (None: none), and mend the line."""
    file = copy / mutation.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(apply_mutation(mutation, whole), encoding="utf-8")
    try:
        return find_notice(copy, kinds)
    finally:
        file.write_text(whole, encoding="utf-8")


def copy_repository(to: Path) -> Path:
    """Copy what is committed, and return the copy's root; packages and real input stay where they are."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    to.mkdir()
    subprocess.run(["tar", "-x", "-C", to], input=archive, check=True)
    (to / ".venv").symlink_to(ROOT / ".venv")
    return to


def find_unnoticed(copies: Sequence[Path], drawn: Sequence[Mutation]) -> list[Mutation]:
    """Return the mutations that no test notices; what became of each is printed, of some after each of both passes.

    All are tried with the tests near them before any is tried with all the others: those take long.
    """
    near = [(mutation, list_near(mutation.file, copies[0])) for mutation in drawn]
    left = _try_all(copies, near, missed="not noticed by tests near it")
    if left:
        _tell(f"{len(drawn) - len(left)} of {len(drawn)} noticed by tests near them; the rest by all others")
    return _try_all(copies, [(mutation, KINDS) for mutation in left], missed="NOT NOTICED")


def _try_all(
    copies: Sequence[Path], tasks: Sequence[tuple[Mutation, Sequence[Sequence[str]]]], *, missed: str
) -> list[Mutation]:
    """Try as many mutations at once as there are copies; return those that these kinds of tests do not notice."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attempt(task: tuple[Mutation, Sequence[Sequence[str]]]) -> bool:
        copy, began = free.get(), time.monotonic()
        try:
            noticed = try_mutation(copy, *task)
        finally:
            free.put(copy)
        _tell(f"{task[0]}\n    {noticed or missed} ({time.monotonic() - began:.0f} s)")
        return noticed is not None

    with ThreadPoolExecutor(len(copies)) as pool:
        noticed = list(pool.map(attempt, tasks))
    return [mutation for (mutation, _), seen in zip(tasks, noticed, strict=True) if not seen]


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Draw, break, test, and print a line for each; exit code 1 where more than `--unnoticed` stay unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--lines", type=int, default=25)
    parser.add_argument("--unnoticed", type=int, default=1, help="how many may stay unnoticed")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="cutover-mutations-") as place:
        copies = [copy_repository(Path(place, name)) for name in ("one", "other")]
        if (failed := find_notice(copies[0], KINDS[:1])) is not None:
            parser.error(f"expected tests that pass before a line is broken, got: {failed}")
        unnoticed = find_unnoticed(copies, draw(given.seed, given.lines))
    sys.stdout.write(f"{given.lines - len(unnoticed)} of {given.lines} noticed, seed {given.seed}\n")
    return int(len(unnoticed) > given.unnoticed)


if __name__ == "__main__":
    sys.exit(main())
