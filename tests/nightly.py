"""Every opt-in target, run one after another, and the table of their last runs in docs/tests.md.

    make nightly                              # all of them: a few hours
    make nightly ONLY=test-cluster,transfers  # some; the rows of the others stay
    make nightly MINUTES=40                   # no further one starts after 40 minutes

Targets that are not part of `make test` break unnoticed unless someone runs them. The table shows when that was. Long
targets run in parts. The parts that have waited longest run first, so a machine that has an hour each night runs all of
them within a few nights.
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
    parts: int = 1  # of about a quarter of an hour each

    @property
    def runs(self) -> tuple["PartRun", ...]:
        """Return the runs that together are the target: one, or one for each part."""
        return tuple(PartRun(target=self, part=part) for part in range(1, self.parts + 1))

    @property
    def words(self) -> str:
        """Return the command's words behind `make`."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.variables.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRun:
    """One part of a target, as it is run and recorded."""

    target: Target
    part: int  # from 1

    @property
    def name(self) -> str:
        """Return the name in the results and of the log."""
        return self.target.name if self.target.parts == 1 else f"{self.target.name}-{self.part}-of-{self.target.parts}"

    @property
    def command(self) -> list[str]:
        """Return the command that runs this part."""
        variables = dict(self.target.variables)
        if self.target.parts > 1:
            variables["PART"] = f"{self.part}/{self.target.parts}"
        return ["make", self.target.name, *(f"{name}={value}" for name, value in variables.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a part's last run."""

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
    Target(name="test-long", shows="further kinds, steps and figures of what `make test` checks", parts=6),
    Target(name="transfers", shows="all balances at 200 drawn epochs are the log's, two drivers killed on the way"),
    Target(
        name="faults",
        shows="every fault of the catalogue ([faults](faults.md)), with its checks and its alert",
        parts=12,
    ),
    Target(
        name="flips",
        shows="200 flipped bits in each kind of stored file: no wrong verdict, no traceback",
        parts=10,
    ),
    Target(
        name="faults-random",
        shows="3 to 6 faults at once, then every check",
        variables={"SECONDS": "600"},
    ),
    Target(
        name="test-nightly",
        shows="reference, batch and stream agree on 200 drawn logs; 60 runs of driver actions; "
        "every property with 100 examples",
        parts=6,
    ),
    Target(
        name="soak",
        shows="1,000 epochs of the real driver: nothing grows (the long form: [soak](soak.md))",
        variables={"EPOCHS": "1000", "ARGS": "--out build/nightly"},
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets, update the page after each part, and return 0 if all passed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of targets, with commas between them")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="time after which no further part starts")
    options = parser.parse_args(arguments)
    selected = [name for name in options.only.split(",") if name]
    unknown = sorted(set(selected) - {target.name for target in TARGETS})
    if unknown:
        sys.stderr.write(f"Nightly targets: expected some of {', '.join(t.name for t in TARGETS)}, got {unknown}.\n")
        return 2
    targets = [target for target in TARGETS if not selected or target.name in selected]
    return run_targets(targets, execute, minutes=options.minutes)


def run_targets(
    targets: Sequence[Target], execute: Callable[[PartRun], Outcome], *, minutes: float = float("inf")
) -> int:
    """Run the parts of targets, those first that have waited longest; record each outcome and update the page."""
    codes, deadline = [], time.monotonic() + minutes * 60
    for run in list_longest_waiting(targets, read_outcomes()):
        if time.monotonic() > deadline:
            break
        outcome = execute(run)
        outcomes = read_outcomes() | {run.name: outcome}
        RESULTS.write_text(json.dumps({n: asdict(o) for n, o in sorted(outcomes.items())}, indent=1) + "\n", "utf-8")
        PAGE.write_text(replace_table(PAGE.read_text("utf-8"), format_table(TARGETS, outcomes)), "utf-8")
        sys.stdout.write(f"{run.name}: {format_outcome([outcome])}, log {LOGS / run.name}.log\n")
        codes.append(outcome.exit_code)
    return 1 if any(codes) else 0


def list_longest_waiting(targets: Sequence[Target], outcomes: Mapping[str, Outcome]) -> list[PartRun]:
    """Return the parts of targets in the order of their last runs, those that never ran first."""
    runs = [run for target in targets for run in target.runs]
    return sorted(runs, key=lambda run: outcomes[run.name].at if run.name in outcomes else "")


def execute(run: PartRun) -> Outcome:
    """Run one part by `make`; what it prints goes to its log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    began, at = time.monotonic(), datetime.now(UTC).isoformat(timespec="minutes")
    with (LOGS / f"{run.name}.log").open("wb") as log_file:
        code = subprocess.run(
            run.command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, check=False
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
    """Format one row for each target, `never run` where no part of it is recorded."""
    rows = [f"| `make {t.words}` | {t.shows} | {' | '.join(_format_cells(t, outcomes))} |" for t in targets]
    return HEAD + "\n".join(rows) + "\n"


def replace_table(page: str, table: str) -> str:
    """Return the page with another table between its two markers."""
    head, _, after_begin = page.partition(BEGIN)
    return head + BEGIN + table + END + after_begin.partition(END)[2]


def format_outcome(outcomes: Sequence[Outcome]) -> str:
    """Return `passed`, or how the first run that failed ended."""
    code = next((outcome.exit_code for outcome in outcomes if outcome.exit_code), 0)
    return f"**failed** (exit code {code})" if code else "passed"


def _format_cells(target: Target, outcomes: Mapping[str, Outcome]) -> list[str]:
    """Format outcome, minutes, time and revision; of a target in parts, the first and the last that ran."""
    recorded = sorted((outcomes[run.name] for run in target.runs if run.name in outcomes), key=lambda o: o.at)
    if not recorded:
        return ["never run", "", "", ""]
    share = "" if len(recorded) == target.parts else f", {len(recorded)} of {target.parts} parts"
    minutes = f"{sum(outcome.seconds for outcome in recorded) / 60:.0f}"
    times = [outcome.at.replace("T", " ").removesuffix("+00:00") for outcome in recorded]
    revisions = [outcome.revision for outcome in recorded]
    return [format_outcome(recorded) + share, minutes, _format_span(times), _format_span(revisions)]


def _format_span(values: Sequence[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


if __name__ == "__main__":
    sys.exit(main())
