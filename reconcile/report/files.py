"""Report files: `<reports>/<pipeline>/<run id>.{html,json,csv,parquet}`, `latest.html`; each is replaced atomically.

A report without a row in the history is one of a run that was killed in between: it is not listed.
"""

import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from cutover import files
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.probe import Probe, silent
from cutover.reconcile.report import page
from cutover.reconcile.report.forms import text_forms
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings

_ENDINGS = (".html", ".csv", ".json", ".parquet")
LOCK = ".lock"
_READABLE = 0o644  # also for readers who run nothing
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")


def make_draft_path(settings: Settings, pipeline: str) -> Path:
    """Return where a run may write a Parquet before its report has a name; swept away if the run is killed."""
    name = f".differences.parquet.{os.getpid()}.{uuid.uuid4().hex}.tmp"
    return settings.reports_dir / _check_name(pipeline) / name


def write_report(settings: Settings, report: Report, *, table: Path | None = None, probe: Probe = silent) -> Path:
    """Write the report of one comparison and return the path of its page.

    The page is rendered before anything is written. What killed runs left half-written in the folder is swept away.

    Args:
        settings: Where the reports are.
        report: The report; where it names a Parquet, `table` becomes that.
        table: A Parquet in the same folder, which is moved.
        probe: Called at `report.rendered`.

    Raises:
        DefinitionError: The pipeline's name or the run's id cannot be the name of a file.
        LakeError: The disk is full, or the folder cannot be written; nothing of the report is left.
    """
    folder = settings.reports_dir / _check_name(report.finding.pipeline)
    _check_name(report.run.run_id)
    html = page.render_page(report)
    probe("report.rendered", -1 if report.finding.seal.epoch is None else report.finding.seal.epoch)
    path = folder / f"{report.run.run_id}.html"
    new = [path.with_suffix(ending) for ending in _ENDINGS if not path.with_suffix(ending).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.delete_temporary_files(folder)
        _replace(path.with_suffix(".json"), json.dumps(report.to_json(), indent=1, sort_keys=True) + "\n")
        if report.finding.differences:
            _replace(path.with_suffix(".csv"), text_forms.format_csv(report))
        if table is not None and report.run.parquet is not None:
            table.chmod(_READABLE)
            table.replace(path.with_suffix(".parquet"))
        _replace(path, html)
    except OSError as error:
        for part in new:
            part.unlink(missing_ok=True)
        msg = f"Reports `{folder}`: expected a folder that can be written, got: {error.strerror or error}."
        hint = "\nHint: no part of the report is left; reconcile again once there is room."
        raise LakeError(msg + hint, runbook="DiskHeadroomLow") from error
    return path


def remove_reports(settings: Settings, pipeline: str, run_ids: Collection[str]) -> None:
    """Remove reports of runs that were not recorded after all."""
    for run_id in run_ids:
        for ending in _ENDINGS:
            (settings.reports_dir / _check_name(pipeline) / f"{_check_name(run_id)}{ending}").unlink(missing_ok=True)


def show_latest(settings: Settings, pipeline: str, newest: Callable[[], RecordedComparison | None]) -> None:
    """Make `latest.html` the page of the current comparison of a pipeline.

    Several runs may end at once: each asks the history while it holds the folder's lock, so none goes back. The
    verdicts are recorded before, so a page that cannot be written is a warning.
    """
    folder = settings.reports_dir / _check_name(pipeline)
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            comparison = newest()
            path = None if comparison is None else folder / f"{_check_name(comparison.run_id)}.html"
            if path is not None and path.is_file():
                _replace(folder / "latest.html", path.read_text(encoding="utf-8"))
    except OSError as error:
        log.warning("latest_not_shown", pipeline=pipeline, error=str(error))


def list_pages(settings: Settings, recorded_comparisons: Iterable[RecordedComparison]) -> list[Path]:
    """Return the pages that still exist, in the order given."""
    paths = (
        settings.reports_dir / recorded_comparison.report
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.report is not None
    )
    return [path for path in paths if path.is_file()]


def read_report(settings: Settings, pipeline: str, run_id: str) -> Report:
    """Read a report's JSON by the id of its run.

    Raises:
        DefinitionError: There is none of this name.
    """
    path = settings.reports_dir / _check_name(pipeline) / f"{_check_name(run_id)}.json"
    try:
        return Report.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        msg = f"Report `{run_id}` of `{pipeline}`: expected a file that can be read, got: {error}."
        raise DefinitionError(msg) from None


def copy_table(settings: Settings, result: Report, to: Path) -> int:
    """Copy the Parquet of a report and return how many rows it has.

    Raises:
        DefinitionError: The report has none, or the copy cannot be written.
    """
    table = None if result.run.parquet is None else settings.reports_dir / result.run.parquet
    if table is None or not table.is_file():
        finding = result.finding
        msg = (
            f"Report `{result.run.run_id}` of `{finding.pipeline}` ({finding.verdict}): expected a Parquet of all rows"
        )
        hint = f"\nHint: `cutover reconcile {finding.pipeline}` writes one where it compares."
        raise DefinitionError(msg + " that differ, found none." + hint)
    try:
        shutil.copyfile(table, to)
    except OSError as error:
        msg = f"File `{to}`: expected a place to write to, got: {error.strerror or error}."
        raise DefinitionError(msg) from None
    from pyarrow import parquet  # noqa: PLC0415 -- half a second that other commands need not pay

    return int(parquet.read_metadata(to).num_rows)


def _check_name(name: str) -> str:
    if not _NAME.match(name):
        msg = f"Report: expected a pipeline and a run id of letters, digits, `_`, `.` and `-`, got {name!r}."
        raise DefinitionError(msg)
    return name


def _replace(path: Path, text: str) -> None:
    files.write_atomically(path, text, mode=_READABLE, durable=True)
