"""Write the table of faults from results alone: `python -m tests.faults.table RESULTS PAGE`.

A fault without a result, or with a failed one, reads `not proven`. The page is never edited by hand.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tests.faults.catalogue import everything, list_promised, run_elsewhere
from tests.faults.fault import Fault, RunElsewhere
from tests.faults.result import Result, read, retain_newest

TITLE = "# Faults caused on purpose, and the checks that held\n\n"
HEAD = """\
`make faults` writes this page from its results (`faults.jsonl` in the same folder). Each fault is caused on a fresh
installation, and evidence from outside the system shows that it happened. Then the fault is repaired, the stream reads
the rest of the log, batch computes the same cut, both are compared, and the checks N1 to N6 (`cutover verify`) run with
the list of acknowledgements that the test's own producer received from the broker.

"""
TITLES = {
    "driver": "The streaming driver",
    "loss": "Loss in the log",
    "kafka": "Kafka",
    "input": "Input",
    "lake": "The lake",
    "settings": "Effective settings",
    "batch": "The batch path",
    "findings": "Findings and reports",
    "later": "Not implemented yet",
    "airflow": "Airflow",
}
COLUMNS = ("fault", "what is done", "result", "checks", "further checks", "alert", "exit", "s")
LONGEST = 160  # characters of a reason
Row = tuple[str, ...]


def page(
    faults: Sequence[Fault],
    absent: Sequence[RunElsewhere],
    missing: Mapping[str, str],
    newest_results: Mapping[str, Result],
) -> str:
    """Return the page.

    Args:
        faults: The catalogue.
        absent: Faults that tests of another kind cause.
        missing: Id and title of faults that are not written yet.
        newest_results: Newest result of each fault, by name.
    """
    rows = [(fault.family, _row(fault, newest_results.get(fault.name))) for fault in faults]
    rows += [(entry.family, _absent(entry)) for entry in absent]
    rows += [("later", (name, title, "not proven", *[""] * 5)) for name, title in missing.items()]
    order = list(TITLES)
    rows.sort(key=lambda row: (order.index(row[0]), row[1][0]))
    families = (_family(name, [row for _, row in group]) for name, group in groupby(rows, key=lambda row: row[0]))
    return (
        TITLE
        + _summary(row for _, row in rows)
        + "\n\n"
        + HEAD
        + _sometimes(newest_results.values())
        + "\n"
        + "\n".join(families)
    )


def _row(fault: Fault, result: Result | None) -> Row:
    if result is None:
        return (fault.name, fault.title, "not proven", *[""] * 5)
    alert = ", ".join(result.alerts) or "silent"
    code = "" if result.exit_code is None else str(result.exit_code)
    outcome = "**proven**" if result.outcome == "proven" else f"not proven: {_short(result.why)}"
    checks = _span(result.checks)
    return (fault.name, fault.title, outcome, checks, "; ".join(result.holds), alert, code, f"{result.seconds:.0f}")


def _short(reason: str) -> str:
    text = " ".join(reason.split()).removeprefix("NotProvenError: ")
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _absent(entry: RunElsewhere) -> Row:
    name = f"{entry.id}-{entry.variant}" if entry.variant else entry.id
    return (name, entry.title, f"run by {entry.location}", *[""] * 5)


def _span(checks: Sequence[str]) -> str:
    return "N1 to N6" if checks == ("N1", "N2", "N3", "N4", "N5", "N6") else ", ".join(checks)


def _family(name: str, rows: Sequence[Row]) -> str:
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return f"## {TITLES[name]}\n\n{_lines(lines)}\n"


def _lines(rows: Iterable[Row]) -> str:
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _summary(rows: Iterable[Row]) -> str:
    outcomes = [row[2] for row in rows]
    proven = sum(outcome == "**proven**" for outcome in outcomes)
    absent = sum(outcome.startswith("run by ") for outcome in outcomes)
    return f"{proven} faults proven, {len(outcomes) - proven - absent} not proven, {absent} run by other tests."


def _sometimes(newest: Iterable[Result]) -> str:
    results = list(newest)
    seeds = ", ".join(sorted({str(result.seed) for result in results})) or "none"
    occurrences = [
        f"{description} ({sum(name in r.sometimes for r in results)} faults)" for name, description in SOMETIMES.items()
    ]
    return f"Seed: {seeds}. During the run: {', '.join(occurrences)}.\n"


SOMETIMES = {
    "redone": "an epoch was redone with another end",
    "late": "a late record entered the ledger",
    "fenced": "a writer was fenced",
    "conflict": "a commit conflict was retried",
}
"""What has to happen somewhere in a full run, or its faults were too tame."""


def at_random(results: Iterable[Result]) -> str:
    """Return the section of the random mode: 3 to 6 faults at the same time on one installation."""
    lines = [("seed", "result", "checks", "epochs", "harms", "drivers ended with", "s"), ("---",) * 7]
    for result in results:
        evidence = result.evidence
        outcome = "**proven**" if result.outcome == "proven" else "not proven"
        harms, ends = (", ".join(evidence.get(name, [])) for name in ("harms", "driver ended with"))
        epochs = str(evidence.get("epochs", ""))
        lines.append((str(result.seed), outcome, _span(result.checks), epochs, harms, ends, f"{result.seconds:.0f}"))
    head = (
        "## Several faults at the same time\n\n"
        "`make faults-random` causes 3 to 6 faults at the same time, then runs all checks.\n\n"
    )
    return head + _lines(lines) + "\n"


def list_never_seen(newest_results: Mapping[str, Result]) -> list[str]:
    """Return what has to happen in the course of all faults and did not; nothing where some were not run.

    Args:
        newest_results: Newest result of each fault, by name.
    """
    if not {fault.name for fault in everything()} <= set(newest_results):
        return []
    occurred = {name for result in newest_results.values() for name in result.sometimes}
    return [description for name, description in SOMETIMES.items() if name not in occurred]


def main(results: Path, path: Path) -> int:
    """Write the page; the random mode's results are in the same folder. Results replaced by newer ones are removed.

    Returns:
        The exit code: 1 where all faults ran and were too tame.
    """
    newest_results = retain_newest(results, (fault.name for fault in everything()))
    text = page(everything(), run_elsewhere(), list_promised(), newest_results)
    played = read(results.with_name("faults-random.jsonl")).values()
    path.write_text(text + "\n" + at_random(played), encoding="utf-8")
    never = list_never_seen(newest_results)
    sys.stderr.write("".join(f"Never seen in the course of all faults: {description}.\n" for description in never))
    return int(bool(never))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
