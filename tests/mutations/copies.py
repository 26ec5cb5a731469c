"""Copies of the repository in which a line is broken, and tests that run there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mutations.changes import ROOT, Mutation, apply_mutation
from tests.support.suite.depth import THOROUGH

ALL = tuple(f"tests/{kind}" for kind in ("unit", "spec", "property", "dags", "faults", "e2e", "integration"))
"""What `make test` runs."""

PROFILE = (f"--hypothesis-profile={THOROUGH}",)
"""Options of each run: as many examples as at night."""

TRIES = 2
"""Times that a kind of tests runs where what failed in it passes alone."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::[^\n]*?\]|::\S+)?)(?: - |$)", re.MULTILINE)
_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # none: all that were named are long ones


def copy_repository(to: Path) -> Path:
    """Copy what is committed, and return the copy's root; packages and real input stay where they are."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    to.mkdir()
    subprocess.run(["tar", "-x", "-C", to], input=archive, check=True)
    (to / ".venv").symlink_to(ROOT / ".venv")
    return to


def try_mutation(copy: Path, mutation: Mutation, steps: Sequence[Sequence[str]]) -> str | None:
    """Break the line in a copy, and return the first test of these steps that notices; None: none does.

    A test notices where it fails twice, the second time alone, and passes once the line is whole again.
    """
    for step in steps:
        with broken(copy, mutation):
            failed = find_failure(copy, step)
        if failed is not None and passes(copy, failed):
            return failed
    return None


@contextmanager
def broken(copy: Path, mutation: Mutation) -> Iterator[None]:
    """Mutate a line in a copy, and restore it."""
    file = copy / mutation.file
    text = file.read_text(encoding="utf-8")
    file.write_text(apply_mutation(mutation, text), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(text, encoding="utf-8")


def find_failure(copy: Path, step: Sequence[str]) -> str | None:
    """Return a test that fails twice, the second time alone: one that was only slow on a busy machine passes then."""
    for _ in range(TRIES):
        ended = run_tests(copy, "-x", *step)
        if ended.returncode in _PASSED:
            return None
        failed = list_failed(ended)[0]
        if not passes(copy, failed):
            return failed
    return None


def list_failed(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the tests that failed, and the files that could not be read.

    Raises:
        RuntimeError: The run ended in another way.
    """
    failed = _FAILED.findall(ended.stdout)
    if not failed and ended.returncode not in _PASSED:
        output = f"{ended.stdout[-500:]}{ended.stderr[-500:]}"
        msg = f"expected tests that pass or fail, got exit {ended.returncode}: {output}"
        raise RuntimeError(msg)
    return failed


def passes(copy: Path, test: str) -> bool:
    """Return whether a test, or a file that pytest cannot read, passes alone."""
    return run_tests(copy, test).returncode in _PASSED


def run_tests(copy: Path, *words: str, env: Mapping[str, str] = os.environ) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the repository."""
    command = [sys.executable, "-m", "pytest", "--timeout=300", "-p", "no:cacheprovider", *PROFILE, *words]
    # What a test starts runs the broken code too, and never the code as compiled before a line of it was changed.
    environment = {**env, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
