"""Sequence of drills on one embedded stack, in a folder and on a broker that no real pipeline uses, and its results.

The results are the file with the latest outcomes, the table in `docs/drills.md`, and the times in runbooks.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cutover import files, runbooks
from cutover.errors import CutoverError, DefinitionError
from cutover.infra.drills.perform import DrillOutcome, perform
from cutover.infra.drills.stack import Drill, Stack
from cutover.output.console import ReportProgress
from cutover.runbooks import Page
from cutover.settings import Settings

Results = Mapping[str, Mapping[str, Any]]
"""Fields of the latest outcome of each drill, by the drill's name."""

_HEAD = """# Drills

The table shows how long each alert took to be detected, and its runbook to repair the fault: {drills} drills with
{commands} commands of runbooks, each followed by `cutover verify P --all`, in which N1 to N6 held. `make drills` runs
all of them again and writes this page from the latest run of each.

A drill causes an alert on an embedded stack (a separate broker, lake and pipeline), follows its runbook block by block,
and compares the output of each command with the page. *Detected* is the time from the injection to the alert in
`cutover watch`, *repaired* the time from then until the alert was clear, including the commands.

Time limits are scaled down, so that a drill takes a minute or two; an installation detects a fault after its own limit
and one evaluation. The times are those of one run, on that machine and under its load.
"""


def run_drills(
    settings: Settings, drills: Sequence[Drill], *, home: Path | None, report_progress: ReportProgress
) -> Iterator[tuple[Drill, DrillOutcome | CutoverError]]:
    """Yield each drill with its outcome, or with the error of a failed one; the stack ends with the last drill.

    A drill continues on the healthy pipeline of the previous one. After a failure, and for isolated drills, the stack
    gets a new topic and a new lake.

    Raises:
        DefinitionError: The settings or the folder belong to real pipelines.
        CutoverError: The stack could not be started.
    """
    with open_folder(settings, home) as folder:
        stack = Stack(folder)
        try:
            report_progress("starting a separate broker and pipeline")
            stack.open()
            is_healthy = False
            for drill in drills:
                try:
                    if drill.is_isolated or not is_healthy:
                        stack.limits = {}
                        stack.reset()
                    is_healthy = False
                    outcome = perform(drill, stack, report_progress=report_progress)
                    is_healthy = not (drill.is_isolated or drill.definition)
                except CutoverError as error:
                    yield drill, error
                else:
                    yield drill, outcome
        finally:
            stack.close()


@contextmanager
def open_folder(settings: Settings, path: Path | None) -> Iterator[Path]:
    """Provide a folder for the stack of drills; a temporary one is removed afterwards.

    Args:
        settings: Settings of the process that runs the drills.
        path: Folder to use and keep; None: the home in the settings, or a temporary folder.

    Raises:
        DefinitionError: The settings name a cluster or a lake, or the folder is not empty.
    """
    check_settings(settings)
    home = path if path is not None else settings.home if "home" in settings.model_fields_set else None
    if home is None:
        with TemporaryDirectory(prefix="cutover-drill-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    check_folder(home)
    yield home.resolve()


def check_settings(settings: Settings) -> None:
    """Reject settings that point to a cluster or a lake of real pipelines.

    Raises:
        DefinitionError: They name a cluster or a lake.
    """
    shared_resources = {"kafka.bootstrap_servers": settings.kafka.bootstrap_servers, "lake": settings.lake}
    for name, value in shared_resources.items():
        if value is not None:
            msg = f"Drill: expected settings without real pipelines, got the setting `{name}`, which may have some."
            hint = "run drills on another machine, or from a folder without that `cutover.toml` or variable."
            raise DefinitionError(f"{msg}\nHint: {hint}")  # noqa: EM102 -- a hint follows


def check_folder(folder: Path) -> None:
    """Reject a folder with any content: a lake, a running broker, or other files.

    Raises:
        DefinitionError: It is not a folder, or not empty.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        msg = f"Drill, `{folder}`: expected an empty or a new folder, got one that is in use."
        hint = "drills damage existing data; omit `--home` and `CUTOVER_HOME` to use a temporary folder."
        raise DefinitionError(f"{msg}\nHint: {hint}")  # noqa: EM102 -- a hint follows


def add_result(file: Path, outcome: DrillOutcome) -> None:
    """Write an outcome into the results file, in place of an earlier one of the same drill."""
    results = dict(files.read_json_file(file) or {})
    files.write_atomically(file, _encode({**results, outcome.name: asdict(outcome)}), mode=0o644)


def read_results(file: Path) -> Results:
    """Read the latest outcome of each drill; empty before the first one."""
    return {name: dict(row) for name, row in (files.read_json_file(file) or {}).items() if isinstance(row, dict)}


def write_results_page(file: Path, results: Results) -> None:
    """Write the table of drills, with one row per runbook, drilled or not."""
    parsed_pages = [runbooks.read_page(name) for name in runbooks.list_runbooks()]
    files.write_atomically(file, make_results_page(parsed_pages, results), mode=0o644)


def write_heads(results: Results) -> None:
    """Write the day and the times of the latest drill into the head of each runbook."""
    for name, row in results.items():
        day = datetime.fromisoformat(row["at"]).date()
        runbooks.write_times(name, day=day, detect_seconds=row["detect_seconds"], repair_seconds=row["repair_seconds"])


def make_results_page(pages: Iterable[Page], results: Results) -> str:
    """Format the table of drills as Markdown.

    Args:
        pages: All runbooks.
        results: Latest outcome of each drill.
    """
    pages = list(pages)
    drilled_rows = [_format_row(page, results[page.name]) for page in pages if page.name in results]
    other_rows = [
        f"| [{page.name}](runbooks/{page.name}.md) | {_describe_reason(page)} |"
        for page in pages
        if page.name not in results
    ]
    commands = sum(len(row["steps"]) for row in results.values())
    return "\n".join(
        (
            _HEAD.format(drills=len(drilled_rows), commands=commands),
            "| alert | fault | detected in | repaired in | commands | limits, scaled down | day |",
            "|---|---|---|---|---|---|---|",
            *drilled_rows,
            "",
            "## Runbooks without a drill",
            "",
            "| runbook | reason |",
            "|---|---|",
            *other_rows,
            "",
        )
    )


def _format_row(page: Page, row: Mapping[str, Any]) -> str:
    cells = (
        f"[{page.name}](runbooks/{page.name}.md)",
        row["title"],
        f"{row['detect_seconds']:.1f} s",
        f"{row['repair_seconds']:.1f} s",
        str(len(row["steps"])),
        ", ".join(f"`{name}` {value:g}" for name, value in row["scale"].items()),
        str(row["at"])[:10],
    )
    return f"| {' | '.join(cells)} |"


def _describe_reason(page: Page) -> str:
    return page.head.no_drill or "not run yet"


def _encode(rows: Mapping[str, object]) -> str:

    return json.dumps(rows, indent=1, sort_keys=True) + "\n"


def main(results_file: Path, page: Path) -> None:
    """Write the table and the heads of the runbooks from a results file.

    Args:
        results_file: File written by `cutover drill --results`.
        page: Page with the table, `docs/drills.md`.
    """
    results = read_results(results_file)
    write_heads(results)
    write_results_page(page, results)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
