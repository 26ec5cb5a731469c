"""Every opt-in target, run one after another, and the table of their last runs in docs/tests.md.

    make nightly                              # all of them: a few hours
    make nightly ONLY=test-cluster,transfers  # some; the rows of the others stay

Targets that are not part of `make test` break unnoticed unless someone runs them. The table shows when that was.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

LOGS = Path("build/nightly")
RESULTS = Path("docs/nightly.json")
PAGE = Path("docs/tests.md")
BEGIN, END = "<!-- targets: written by `make nightly` -->\n", "<!-- end of targets -->"
HEAD = """\
| target | what it shows | outcome | minutes | when (UTC) | revision |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One opt-in target of the Makefile, in the form that fits into a night."""

    name: str
    shows: str
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Return the command's words behind `make`."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.variables.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a target's last run."""

    exit_code: int
    seconds: float
    at: str  # ISO 8601, UTC
    revision: str  # short hash; with `+` behind it: of a tree with changes


TARGETS = (
    Target(
        name="test-cluster",
        shows="both paths on two workers of a Spark cluster: the same tables when an executor of each is killed",
    ),
    Target(
        name="test-object-store",
        shows="both paths, overflow, folds, fence and reconciler over an S3-compatible object store",
    ),
    Target(name="test-long", shows="further kinds, steps and figures of what `make test` checks"),
    Target(name="transfers", shows="all balances at 200 drawn epochs are the log's, two drivers killed on the way"),
    Target(name="faults", shows="every fault of the catalogue ([faults](faults.md)), with its checks and its alert"),
    Target(name="flips", shows="200 flipped bits in each kind of stored file: no wrong verdict, no traceback"),
    Target(
        name="faults-random",
        shows="3 to 6 faults at once, then every check",
        variables={"SECONDS": "600"},
    ),
    Target(
        name="test-nightly",
        shows="reference, batch and stream agree on 200 drawn logs; 60 runs of driver actions; "
        "every property with 100 examples",
    ),
    Target(
        name="soak",
        shows="1,000 epochs of the real driver: nothing grows (the long form: [soak](soak.md))",
        variables={"EPOCHS": "1000", "ARGS": "--out build/nightly"},
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets, update the page after each, and return 0 if all passed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of targets, with commas between them")
    selected = [name for name in parser.parse_args(arguments).only.split(",") if name]
    unknown = sorted(set(selected) - {target.name for target in TARGETS})
    if unknown:
        sys.stderr.write(f"Nightly targets: expected some of {', '.join(t.name for t in TARGETS)}, got {unknown}.\n")
        return 2
    return run_targets([t for t in TARGETS if not selected or t.name in selected], execute)


def run_targets(targets: Sequence[Target], execute: Callable[[Target], Outcome]) -> int:
    """Run targets one after another; record the outcome of each and update the page."""
    codes = []
    for target in targets:
        outcome = execute(target)
        outcomes = read_outcomes() | {target.name: outcome}
        RESULTS.write_text(json.dumps({n: asdict(o) for n, o in sorted(outcomes.items())}, indent=1) + "\n", "utf-8")
        PAGE.write_text(replace_table(PAGE.read_text("utf-8"), format_table(TARGETS, outcomes)), "utf-8")
        sys.stdout.write(f"{target.name}: {format_outcome(outcome)}, log {LOGS / target.name}.log\n")
        codes.append(outcome.exit_code)
    return 1 if any(codes) else 0


def execute(target: Target) -> Outcome:
    """Run one target by `make`; what it prints goes to its log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    began, at = time.monotonic(), datetime.now(UTC).isoformat(timespec="minutes")
    command = ["make", target.name, *(f"{name}={value}" for name, value in target.variables.items())]
    with (LOGS / f"{target.name}.log").open("wb") as log_file:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, check=False
        ).returncode
    return Outcome(exit_code=code, seconds=round(time.monotonic() - began), at=at, revision=read_revision())


def read_outcomes() -> dict[str, Outcome]:
    """Return the last outcome of each target that ever ran."""
    if not RESULTS.is_file():
        return {}
    return {name: Outcome(**raw) for name, raw in json.loads(RESULTS.read_text("utf-8")).items()}


def read_revision() -> str:
    """Return what git calls the tree that ran."""

    def run_git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()

    pages = {str(PAGE), str(RESULTS)}
    changes = [line for line in run_git("status", "--porcelain").splitlines() if line[3:] not in pages]
    return run_git("rev-parse", "--short", "HEAD") + ("+" if changes else "")


def format_table(targets: Sequence[Target], outcomes: Mapping[str, Outcome]) -> str:
    """Format one row for each target, `never run` where no run is recorded."""
    rows = []
    for target in targets:
        outcome = outcomes.get(target.name)
        cells = ["never run", "", "", ""] if outcome is None else _cells(outcome)
        rows.append(f"| `make {target.words}` | {target.shows} | {' | '.join(cells)} |")
    return HEAD + "\n".join(rows) + "\n"


def replace_table(page: str, table: str) -> str:
    """Return the page with another table between its two markers."""
    head, _, after_begin = page.partition(BEGIN)
    return head + BEGIN + table + END + after_begin.partition(END)[2]


def format_outcome(outcome: Outcome) -> str:
    """Return `passed`, or how it ended."""
    return "passed" if outcome.exit_code == 0 else f"**failed** (exit code {outcome.exit_code})"


def _cells(outcome: Outcome) -> list[str]:
    ended_at = outcome.at.replace("T", " ").removesuffix("+00:00")
    return [format_outcome(outcome), f"{outcome.seconds / 60:.0f}", ended_at, outcome.revision]


if __name__ == "__main__":
    sys.exit(main())
