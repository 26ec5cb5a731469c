"""Where reports lie: `<reports>/<pipeline>/<run id>.{html,json,csv}` and `latest.html`; each replaced as a whole."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

from cutover.errors import DefinitionError, LakeError
from cutover.probe import Probe, silent
from cutover.settings import Settings
from reconcile.report import page, sheet
from reconcile.result import Reconciliation

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")


def write(settings: Settings, result: Reconciliation, *, probe: Probe = silent) -> Path:
    """Write the report of one comparison and return the path of its page.

    The page is rendered before anything is written, and `latest.html` changes last: a reader never finds half a report.

    Raises:
        DefinitionError: The pipeline's name or the run's id cannot be the name of a file.
        LakeError: The disk is full, or the folder cannot be written; nothing of the report is left.
    """
    folder = settings.reports_dir / _safe(result.pipeline)
    stem = f"{folder.name}/{_safe(result.run_id)}"
    named = replace(result, report=f"{stem}.json", page=f"{stem}.html")
    html = page.render(named)
    probe("report.rendered", -1 if result.seal.epoch is None else result.seal.epoch)
    path = folder / f"{result.run_id}.html"
    new = [path.with_suffix(ending) for ending in (".html", ".csv", ".json") if not path.with_suffix(ending).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(path.with_suffix(".json"), json.dumps(named.to_json(), indent=1, sort_keys=True) + "\n")
        if named.differences:
            _replace(path.with_suffix(".csv"), sheet.differences(named))
        _replace(path, html)
        _replace(folder / "latest.html", html)
    except OSError as error:
        for part in new:
            part.unlink(missing_ok=True)
        msg = f"Reports `{folder}`: expected a folder that can be written, got: {error.strerror or error}."
        hint = "\nHint: no part of the report is left; reconcile again once there is room."
        raise LakeError(msg + hint, runbook="DiskHeadroomLow") from error
    return path


def load(settings: Settings, pipeline: str, run_id: str) -> Reconciliation:
    """Return a stored comparison.

    Raises:
        DefinitionError: There is none of this name.
    """
    path = settings.reports_dir / _safe(pipeline) / f"{_safe(run_id)}.json"
    try:
        return Reconciliation.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        msg = f"Report `{run_id}` of `{pipeline}`: expected a file that can be read, got: {error}."
        raise DefinitionError(msg) from None


def _safe(name: str) -> str:
    if not _NAME.match(name):
        msg = f"Report: expected a pipeline and a run id of letters, digits, `_`, `.` and `-`, got {name!r}."
        raise DefinitionError(msg)
    return name


def _replace(path: Path, text: str) -> None:
    """Put a whole file in place of the old one, or leave the old one as it is."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
