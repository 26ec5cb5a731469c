"""What was sent into which topic: so that a file is not sent twice by mistake."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cutover import files
from cutover.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedRun:
    """One run of `cutover produce`."""

    sha256: str
    file: str  # its name, for people
    start: int | None  # log time, microseconds; None: from the first record
    end: int | None  # exclusive; None: to the last record
    records: int
    at: str  # ISO 8601
    finished: bool  # False: interrupted, nobody knows how much of it


class Produced:
    """The notes on one topic, in `<home>/produced/<topic id>.json`."""

    def __init__(self, home: Path, topic_id: str) -> None:
        safe = topic_id.replace("+", "-").replace("/", "_")  # Kafka writes ids in base 64
        self._path = home / "produced" / f"{safe}.json"

    def list_runs(self) -> list[ProducedRun]:
        """Read what was sent before, oldest first; empty where nothing was.

        Raises:
            DefinitionError: The file is damaged.
        """
        if not self._path.exists():
            return []
        try:
            return [ProducedRun(**entry) for entry in json.loads(self._path.read_text(encoding="utf-8"))]
        except (ValueError, TypeError) as error:
            msg = f"{self._path}: expected the notes of `cutover produce`, got: {error}.\nHint: delete it to forget."
            raise DefinitionError(msg) from error

    def refuse_repeat(self, wanted: ProducedRun, topic: str) -> None:
        """Refuse a file that was sent before, in a range that overlaps.

        Raises:
            DefinitionError: Says when it was sent, and how to send it again.
        """
        for entry in self.list_runs():
            if entry.sha256 == wanted.sha256 and _overlap(entry, wanted):
                state = "was sent" if entry.finished else "was sent in part (that run was interrupted)"
                msg = (
                    f"{wanted.file}: expected a file that is not in topic `{topic}` yet, but it {state} at {entry.at}."
                )
                raise DefinitionError(msg + "\nHint: `--again` sends it once more; each record will be there twice.")

    def note(self, entry: ProducedRun) -> None:
        """Write down a run; one that is noted as interrupted before is replaced by its end."""
        others = [known for known in self.list_runs() if (known.sha256, known.at) != (entry.sha256, entry.at)]
        files.write_json(self._path, [asdict(known) for known in [*others, entry]])


def file_sha256(path: Path) -> str:
    """64 hex digits over the bytes, still compressed where the file is."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _overlap(one: ProducedRun, other: ProducedRun) -> bool:
    low = max((s.start for s in (one, other) if s.start is not None), default=None)
    high = min((s.end for s in (one, other) if s.end is not None), default=None)
    return low is None or high is None or low < high
