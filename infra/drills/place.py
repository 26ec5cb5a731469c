"""Where a drill may run: in a place of its own, never where real pipelines run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cutover.errors import DefinitionError
from cutover.settings import Settings


@contextmanager
def own_place(settings: Settings, given_path: Path | None) -> Iterator[Path]:
    """Give a folder for a drill's stack; one that was not named is removed afterwards.

    Args:
        settings: As they are where the drill is started.
        given_path: A folder that somebody wants to look into afterwards; None: a temporary one, or the home that the
            settings name.

    Raises:
        DefinitionError: The settings name a cluster or a lake, or the folder holds something.
    """
    refuse_real_pipelines(settings)
    home = given_path if given_path is not None else settings.home if "home" in settings.model_fields_set else None
    if home is None:
        with TemporaryDirectory(prefix="cutover-drill-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    refuse_used_folder(home)
    yield home.resolve()


def refuse_real_pipelines(settings: Settings) -> None:
    """Refuse settings that name what other people use.

    Raises:
        DefinitionError: They name a cluster or a lake.
    """
    named_settings = {"kafka.bootstrap_servers": settings.kafka.bootstrap_servers, "lake": settings.lake}
    for name, value in named_settings.items():
        if value is not None:
            msg = f"Drill: expected a place without real pipelines, got the setting `{name}`, which names some."
            hint = "run drills on another machine, or from a folder without that `cutover.toml` or variable."
            raise DefinitionError(f"{msg}\nHint: {hint}")  # noqa: EM102 -- a hint follows


def refuse_used_folder(folder: Path) -> None:
    """Refuse a folder in which anything lies: a lake, a running broker, or somebody's files.

    Raises:
        DefinitionError: It is no folder, or not empty.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        msg = f"Drill, `{folder}`: expected an empty folder or none, got one that is in use."
        hint = "a drill breaks what it finds; leave `--home` and `CUTOVER_HOME` out, and it makes a folder of its own."
        raise DefinitionError(f"{msg}\nHint: {hint}")  # noqa: EM102 -- a hint follows
