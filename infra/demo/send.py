"""What the demonstrations share: a command of ours run as a user would, and what of a file a topic holds."""

import subprocess
import sys
from pathlib import Path

from cutover.errors import DefinitionError
from cutover.log.kafka import LogClient
from cutover.records.sending.produced import ProducedNotes, ProducedRun, file_sha256
from cutover.settings import Settings


def run(*words: str) -> None:
    """Run `cutover` with these words; its output is seen.

    Raises:
        DefinitionError: It refused; it has said why.
    """
    command = [sys.executable, "-m", "cutover.cli.app", *words]
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if completed.returncode != 0:
        msg = f"The sample was not sent: expected exit code 0 of `cutover {words[0]}`, got {completed.returncode}."
        raise DefinitionError(msg + "\nHint: an interrupted start is cleared away by `make purge`.")


def sent_runs(settings: Settings, topic: str, file: Path) -> list[ProducedRun]:
    """Return the runs of `produce` that sent this very file, or a stretch of it, to a topic as it is now."""
    client = LogClient(settings)
    if topic not in client.topics():
        return []
    digest = file_sha256(file)
    runs = ProducedNotes(settings.home.resolve(), client.describe(topic).topic_id).list_runs()
    return [entry for entry in runs if entry.sha256 == digest]
