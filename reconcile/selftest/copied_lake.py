"""A copy of what a comparison reads of one pipeline: links to the same files, which no table changes in place."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from cutover import files
from cutover.definition.model.joins import CONTROL_FOLDER, DIMENSIONS_FOLDER
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError, LogError
from cutover.log.address import bootstrap_servers
from cutover.settings import Settings

_LOG = "_delta_log"
_FOLDERS = (CONTROL_FOLDER, DIMENSIONS_FOLDER)


@contextmanager
def open_copy(settings: Settings, pipeline: Pipeline) -> Iterator[Settings]:
    """Yield settings whose lake is a copy; it is deleted afterwards.

    Raises:
        LakeError: The lake lies in an object store, where nothing can be linked.
    """
    if "://" in settings.lake_uri:
        msg = f"Self-test of `{pipeline.name}`: expected a lake in a folder, whose files can be linked, got a store."
        raise LakeError(msg + "\nHint: copy the pipeline's folder and `_control`, and set `lake` to the copy.")
    root = Path(settings.lake_uri)
    # Next to the lake: files can be linked only within one file system.
    parent = files.make_private_folder(root.parent / "selftests")
    with TemporaryDirectory(prefix=f"{pipeline.name}-", dir=parent) as home:
        for name in (pipeline.name, *_FOLDERS):  # its notes of turns before the tables that they are of
            link_tree(root / name, Path(home) / "lake" / name)
        for folder in settings.run_dir.glob(f"{pipeline.name}*"):
            with suppress(FileNotFoundError):  # a heartbeat is replaced while it is read
                shutil.copytree(folder, Path(home) / "run" / folder.name)
        yield _point_to(settings, Path(home))


def _point_to(settings: Settings, home: Path) -> Settings:
    kafka = settings.kafka
    with suppress(LogError):
        kafka = kafka.model_copy(update={"bootstrap_servers": bootstrap_servers(settings)})
    return settings.model_copy(update={"home": home, "lake": None, "kafka": kafka})


def link_tree(source: Path, target: Path) -> None:
    """Link every file of a folder of tables, each table's log before its data: what a log lists exists then.

    Files deleted meanwhile are not listed. The pointer to the last checkpoint comes before the log's other files.
    """
    for folder, _, names in sorted(os.walk(source), key=lambda entry: (_LOG not in entry[0], entry[0])):
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in sorted(names, key=lambda name: (name != "_last_checkpoint", name)):
            with suppress(FileNotFoundError):
                os.link(Path(folder) / name, place / name)
