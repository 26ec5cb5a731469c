"""What the tasks of the repair DAG do: a request for each window, a look at each, and one commit of what differs."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.definition.loading import catalogue
from cutover.definition.model.ranges import parse_range_end
from cutover.infra.processes.child import ChildEnd, run_command
from cutover.settings import load_settings
from cutover_tasks.task_errors import fail_without_retries

log = logging.getLogger("airflow.task")
DIRTY = ""
"""In place of a window's start: all that are dirty."""
_DIFFERS, _REFUSED = 1, 2  # exit codes of the command line


def collect_starts(pipeline: str, params: Mapping[str, Any]) -> list[str]:
    """Return the start of each window that was asked for, in UTC, ascending, each once; `DIRTY` alone if none was.

    Raises:
        AirflowFailException: One of them is no time.
    """
    with fail_without_retries():
        window = catalogue.get(load_settings(), pipeline).window
        windows = [str(text).strip() for text in params.get("windows") or () if str(text).strip()]
        return sorted({parse_range_end(text, window, of="Window").isoformat() for text in windows}) or [DIRTY]


def repair_arguments(pipeline: str, windows: Sequence[str]) -> list[str]:
    """Return the words of the command that looks at windows."""
    window_arguments = (
        [word for start in windows for word in ("--window", start)] if DIRTY not in windows else ["--dirty"]
    )
    return ["repair", pipeline, *window_arguments, "--json"]


def look_at(pipeline: str, window: str) -> dict[str, Any]:
    """Compute a window in a child process and log what would change.

    Returns:
        `window`, `would_change` (rows), `counts`, `changes` (the first of them), `id` (of the draft).

    Raises:
        AirflowFailException: It was refused; the message is the command's own.
        RuntimeError: The child ended in a way that nobody expected.
    """
    draft = read_end(pipeline, run_command(repair_arguments(pipeline, [window]), on_line=log.info))
    fields = {name: draft.get(name) for name in ("id", "would_change", "counts", "changes")}
    log.info("%s: %s rows would change", window or "all dirty windows", fields["would_change"])
    return {"window": window, **fields}


def read_end(pipeline: str, end: ChildEnd) -> dict[str, Any]:
    """Return what the command printed.

    Raises:
        AirflowFailException: It was refused.
        RuntimeError: It died, or printed nothing.
    """
    if end.exit_code == _REFUSED:
        raise AirflowFailException(end.message)
    if end.exit_code not in {0, _DIFFERS} or not isinstance(end.value, dict):
        msg = f"Repair of {pipeline} ended with exit code {end.exit_code}:\n{end.message}"
        raise RuntimeError(msg)
    return end.value


def publish_windows(pipeline: str, looks: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Publish the windows that differ, in one commit.

    Returns:
        What the asset of the batch table announces: `epoch`, `run_id`, `batch_version`, `from` and `to` (None).

    Raises:
        AirflowSkipException: A dry run, or nothing would change.
        AirflowFailException: It was refused; nothing was published.
    """
    differing = [str(look["window"]) for look in looks if look["would_change"]]
    rows = sum(int(look["would_change"] or 0) for look in looks)
    if not differing:
        msg = f"Nothing would change in {len(looks)} windows of {pipeline}."
        raise AirflowSkipException(msg)
    if not params.get("publish"):
        msg = f"Dry run: {rows} rows in {len(differing)} windows of {pipeline} would change. Set `publish` to do it."
        raise AirflowSkipException(msg)
    reason_arguments = ["--why", str(params["why"])] if params.get("why") else []
    arguments = [*repair_arguments(pipeline, differing), "--publish", *reason_arguments]
    published = read_end(pipeline, run_command(arguments, on_line=log.info))
    run = published.get("run")
    if not isinstance(run, dict):
        msg = f"Nothing would change any more in {len(differing)} windows of {pipeline}."
        raise AirflowSkipException(msg)
    log.info("published %s: %s rows in %s windows", run["run_id"], rows, len(differing))
    return {name: run.get(name) for name in ("epoch", "run_id", "batch_version")} | {"from": None, "to": None}
