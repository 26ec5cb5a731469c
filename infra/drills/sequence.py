"""Sequence of drills on one embedded stack, in a folder and on a broker that no real pipeline uses."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cutover.errors import CutoverError, DefinitionError
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.perform import DrillOutcome, perform
from cutover.infra.drills.stack import Stack
from cutover.output.console import ReportProgress
from cutover.settings import Settings


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
