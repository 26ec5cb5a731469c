"""History of sent files by topic id and records: a file that grew, was renamed or edited is recognized."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cutover.errors import DefinitionError
from cutover.records.sending.produced import NO_HISTORY, ProducedNotes, ProducedRun, lock_sending
from cutover.records.sending.rows import FileContent

SENT = ProducedRun(
    sha256="a",
    file="a.csv",
    start=10,
    end=20,
    records=5,
    at="2013-01-01T00:00:00",
    finished=True,
    run="r1",
    content="c1",
    read=100,
)


def content(records: Sequence[object], header: str = "h") -> FileContent:
    file_content = FileContent()
    for part in (header, *records):
        file_content.add(str(part).encode())
    return file_content


def record_sent(home: Path, records: Sequence[object]) -> ProducedNotes:
    produced = ProducedNotes(home, "id+/")
    produced.record_start(SENT, content(records))
    return ProducedNotes(home, "id+/")


@pytest.mark.parametrize("records", [range(100), range(120), range(70)])
def test_an_equal_grown_or_truncated_file_is_recognized(tmp_path: Path, records: Sequence[object]) -> None:
    history = record_sent(tmp_path, range(100)).find_history(content(records), "other bytes")

    assert (history.runs, history.content, history.difference) == ((SENT,), "c1", None)


@pytest.mark.parametrize(
    ("records", "first_difference", "common", "is_edited"),
    [
        ([*range(3), "edited", *range(4, 100)], 3, 99, True),
        (["edited", *range(1, 100)], 0, 99, True),
        ([*range(99), "edited"], 99, 99, True),
        (range(1, 100), 0, 99, True),
        ([*range(50), *range(1000, 1050)], 50, 50, False),
        ([*range(51), *range(1000, 1049)], 51, 51, True),
        ([*range(60), *range(1000, 2000)], 60, 60, True),
    ],
)
def test_a_different_file_is_new_with_its_first_different_record(
    tmp_path: Path, records: Sequence[object], first_difference: int, common: int, is_edited: bool
) -> None:
    history = record_sent(tmp_path, range(100)).find_history(content(records), "a")

    assert (history.runs, history.difference is not None) == ((), True)
    assert history.difference is not None
    difference = history.difference
    assert (difference.record, difference.common, difference.is_edited_copy, difference.run) == (
        first_difference,
        common,
        is_edited,
        SENT,
    )


@pytest.mark.parametrize(
    ("known_records", "present", "common", "is_edited"),
    [
        ([*range(1_600), *[7] * 100], [*range(1_600), *[7] * 201], 1_700, True),
        ([*range(1_600), *[7] * 201], ["new", *range(1_600), *[7] * 100], 1_700, True),
        ([7] * 100, [7] * 10 + list(range(100, 300)), 10, False),
        ([7] * 10 + list(range(100, 300)), [7] * 100, 10, False),
    ],
)
def test_repeated_records_are_common_as_often_as_in_both_files(
    tmp_path: Path, known_records: Sequence[object], present: Sequence[object], common: int, is_edited: bool
) -> None:
    difference = record_sent(tmp_path, known_records).find_history(content(["first", *present]), "b").difference

    assert difference is not None
    assert (difference.common, difference.is_edited_copy) == (common, is_edited)


def test_a_file_without_a_common_record_is_new(tmp_path: Path) -> None:
    assert record_sent(tmp_path, range(100)).find_history(content(range(200, 300)), "b") == NO_HISTORY


def test_an_equal_header_does_not_identify_a_file(tmp_path: Path) -> None:
    assert record_sent(tmp_path, range(100)).find_history(content([]), "b") == NO_HISTORY


def test_another_header_makes_another_file(tmp_path: Path) -> None:
    history = record_sent(tmp_path, range(100)).find_history(content(range(100), header="other"), "b")

    assert history.difference is not None
    assert history.difference.record == -1


def test_another_topic_knows_nothing(tmp_path: Path) -> None:
    record_sent(tmp_path, range(100))

    assert ProducedNotes(tmp_path, "other").find_history(content(range(100)), "a") == NO_HISTORY


def test_hashes_grow_with_a_file_and_are_kept_for_a_shorter_one(tmp_path: Path) -> None:
    produced = record_sent(tmp_path, range(100))
    produced.record_start(replace(SENT, run="r2"), content(range(150)))
    produced.record_start(replace(SENT, run="r3"), content(range(50)))

    history = produced.find_history(content([*range(149), "other"]), "b")

    assert history.difference is not None
    assert history.difference.record == 149


def test_notes_of_an_earlier_release_identify_a_file_by_its_bytes(tmp_path: Path) -> None:
    early = {name: value for name, value in asdict(SENT).items() if name in list(asdict(SENT))[:7]}
    (tmp_path / "produced").mkdir()
    (tmp_path / "produced" / "id.json").write_text(json.dumps([early]), encoding="utf-8")

    runs_by_hash = [ProducedNotes(tmp_path, "id").find_history(content(range(9)), sha256).runs for sha256 in ("a", "b")]

    assert ([run.run for run in runs_by_hash[0]], runs_by_hash[1]) == ([""], ())


def test_the_end_of_a_run_replaces_its_beginning(tmp_path: Path) -> None:
    produced = ProducedNotes(tmp_path, "id")
    produced.record_start(replace(SENT, finished=False), content(range(5)))
    produced.record_finished({"r1"})

    assert produced.list_runs() == [SENT]


def test_damaged_notes_are_named(tmp_path: Path) -> None:
    ProducedNotes(tmp_path, "id").record_start(SENT, content(range(5)))
    (tmp_path / "produced" / "id.json").write_text("[{}]", encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"id\.json: expected the notes"):
        ProducedNotes(tmp_path, "id").list_runs()


def test_one_file_is_sent_once_at_a_time_and_another_one_at_the_same_time(tmp_path: Path) -> None:
    with lock_sending(tmp_path, "t", content(range(9))), lock_sending(tmp_path, "t", content(range(1, 9))):
        with (
            pytest.raises(DefinitionError, match="another one is sending it"),
            lock_sending(tmp_path, "t", content(range(12))),
        ):
            pass
        with lock_sending(tmp_path, "other", content(range(9))) as free:
            assert free is None
