"""What was sent is remembered by topic id, content and range of log time."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutover.errors import DefinitionError
from cutover.log.sending.produced import Produced, ProducedRun

SENT = ProducedRun(sha256="a", file="a.csv", start=10, end=20, records=5, at="2013-01-01T00:00:00", finished=True)


def test_same_file_and_range_is_refused(tmp_path: Path) -> None:
    Produced(tmp_path, "id+/").note(SENT)

    with pytest.raises(DefinitionError, match=r"a\.csv: expected a file that is not in topic `t` yet"):
        Produced(tmp_path, "id+/").refuse_repeat(replace(SENT, start=None), "t")


@pytest.mark.parametrize("other", [replace(SENT, sha256="b"), replace(SENT, start=20, end=None)])
def test_another_file_or_range_is_not(tmp_path: Path, other: ProducedRun) -> None:
    Produced(tmp_path, "id").note(SENT)

    Produced(tmp_path, "id").refuse_repeat(other, "t")


def test_another_topic_is_not(tmp_path: Path) -> None:
    Produced(tmp_path, "id").note(SENT)

    Produced(tmp_path, "other").refuse_repeat(SENT, "t")


def test_interrupted_run_is_called_so(tmp_path: Path) -> None:
    Produced(tmp_path, "id").note(replace(SENT, finished=False))

    with pytest.raises(DefinitionError, match="in part"):
        Produced(tmp_path, "id").refuse_repeat(SENT, "t")


def test_end_of_a_run_replaces_its_beginning(tmp_path: Path) -> None:
    produced = Produced(tmp_path, "id")
    produced.note(replace(SENT, finished=False))
    produced.note(SENT)

    assert produced.list_runs() == [SENT]


def test_damaged_notes_are_named(tmp_path: Path) -> None:
    Produced(tmp_path, "id").note(SENT)
    (tmp_path / "produced" / "id.json").write_text("[{}]", encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"id\.json: expected the notes"):
        Produced(tmp_path, "id").list_runs()
