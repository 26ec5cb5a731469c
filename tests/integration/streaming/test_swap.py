"""A changed definition beside the one that serves: filled up to its epoch, compared by its note, swapped and back."""

import json
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import swaps
from cutover.lake.paths import serving_uri
from cutover.lake.serving import serving_table
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.beside import swap as swapping
from cutover.streaming.beside.compare import compare_definitions
from cutover.streaming.beside.replay import replay_definition
from cutover.streaming.beside.serve import Agreed
from cutover.streaming.process.heartbeat import folder
from cutover.streaming.process.lock import only_driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

CLOCK, ALL_SEEN = SystemClock(), Agreed()
EVENTS = [Event(id=i, minute=i / 4, key=("a", "b", "drop")[i % 3], partition=i % 2) for i in range(60)]
LATER = [Event(id=100 + i, minute=20, key="b", partition=i % 2) for i in range(4)]
DROPS = len({(event.micros // (10 * rig.MINUTE)) for event in EVENTS if event.key == "drop"})
DEFINITIONS = """
from dataclasses import replace
from cutover.definition import Change, Count, Max, Min, Sum
from tests.integration.streaming import rig

CLICKS = rig.pipeline({topic!r}, cap=20)
CHANGED = replace(
    CLICKS,
    name="clicks_2",
    where=None,
    measures={{"clicks": Count(), "ids": Sum("id"), "newest": Max("-id"), "oldest": Min("id")}},
    change=Change(
        of="clicks", why="clicks that are dropped count, too", added=("oldest",), removed=("squares",),
        changed=("newest",), rows=("added",), within="k = 'drop' OR k IN ('a', 'b')",
    ),
)
"""


@pytest.fixture
def at_work(quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Let commands find both definitions; the old one has read the first events."""
    settings = rig.fast(quick, fold_every=1_000)
    rig.for_commands(monkeypatch, settings, topic)
    (settings.home / "definitions" / "clicks.py").write_text(DEFINITIONS.format(topic=topic), encoding="utf-8")
    rig.send(settings, topic, EVENTS)
    driver.run(settings, rig.pipeline(topic, cap=20), until="drain")
    return settings.model_copy(update={"pipelines": settings.home / "definitions"})


def both(settings: Settings) -> tuple[Pipeline, Pipeline]:
    """Return the new definition and the old one, as they are loaded."""
    return catalogue.get(settings, "clicks_2"), catalogue.get(settings, "clicks")


def rows_of(settings: Settings, name: str) -> list[dict[str, object]]:
    table = DeltaTable(serving_uri(settings, name)).to_pyarrow_table()
    return sorted(table.to_pylist(), key=lambda row: (str(row["window_start"]), str(row["k"])))


def test_a_changed_definition_is_filled_compared_swapped_and_taken_back(
    at_work: Settings, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = at_work
    new, old = both(settings)
    serving_table.publish(settings, old)
    before = rows_of(settings, "clicks")
    rig.send(settings, topic, LATER)  # the old one has not read them: the new one is read up to its epoch

    with only_driver(folder(settings, "clicks"), "clicks"):  # as its driver at work holds it
        assert main(["replay", "clicks_2"]) == 0
        assert "has read the log up to an epoch of clicks" in capsys.readouterr().out
        assert rig.records(settings, new)[-1].end == rig.records(settings, old)[-1].end

        assert main(["swap", "clicks_2"]) == 0
        out = capsys.readouterr().out
        assert f"{DROPS} extra" in out
        assert "rows differ in nothing else" in out
        assert (swaps.served_by(settings, "clicks"), rows_of(settings, "clicks")) == ("clicks", before)

        assert main(["swap", "clicks_2", "--why", "dropped clicks are paid for"]) == 0
        assert main(["serve-view", "clicks", "--json"]) == 0
    published = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (published["served"], published["months"]) == ("clicks_2", [])  # the swap has published it
    serving_table.publish(settings, new)
    assert rows_of(settings, "clicks") == rows_of(settings, "clicks_2") != before
    (row,) = swaps.history(settings, "clicks")
    assert (row["served_by"], row["why"]) == ("clicks_2", "dropped clicks are paid for")
    assert "0 of" in row["found"]

    (settings.home / "definitions" / "clicks.py").rename(settings.home / "kept.py")
    text = (settings.home / "kept.py").read_text(encoding="utf-8").replace("CLICKS =", "_ = CLICKS =")
    (settings.home / "definitions" / "clicks_2.py").write_text(text + "\ndel _, CLICKS\n", encoding="utf-8")
    assert main(["serve-view", "clicks"]) == 0  # the old definition may go: its name is served by the other one
    (settings.home / "definitions" / "clicks_2.py").unlink()
    (settings.home / "kept.py").rename(settings.home / "definitions" / "clicks.py")

    driver.run(settings, old, until="drain")  # the old one goes on, so it is a way back
    assert main(["swap", "clicks", "--back", "--why", "a regression"]) == 0
    assert {(row["k"], row["clicks"]) for row in rows_of(settings, "clicks")} >= {("b", 4)} | {
        (row["k"], row["clicks"]) for row in before if str(row["window_start"])[14:16] == "00"
    }
    assert main(["swap", "clicks", "--back", "--why", "again"]) == 2
    assert "it serves itself" in capsys.readouterr().err


def test_what_the_note_does_not_declare_is_a_difference(at_work: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings = at_work
    new, old = both(settings)
    replay_definition(settings, new, old)
    note = new.change
    assert note is not None
    for change, counts in (
        (note, {}),
        (replace(note, rows=(), within="k = 'a'"), {"changed": 4, "extra": DROPS}),
        (replace(note, within="k = 'drop'"), {"changed": 8}),
        (replace(note, within="window_start >= TIMESTAMP '2026-03-01 12:10:00'"), {"changed": 4 - 2, "extra": 1}),
    ):
        found = compare_definitions(settings, replace(new, change=change), old)
        assert (sum(found.counts.values()) + sum(found.declared.values())) == 2 * DROPS + DROPS, change
        assert found.exit_code == bool(counts)
        assert set(found.counts) == set(counts)

    undeclared = replace(new, change=replace(note, rows=()))
    with pytest.raises(DefinitionError, match=f"expected 0 rows that differ from clicks stream-0, got {DROPS}"):
        swapping.swap(settings, undeclared, old, why="x", agreed=ALL_SEEN, clock=CLOCK)
    assert swaps.served_by(settings, "clicks") == "clicks"
    agreed = Agreed(differences=DROPS)
    swapping.swap(settings, undeclared, old, why="x", agreed=agreed, clock=CLOCK)
    with pytest.raises(DefinitionError, match="got `clicks`, which `clicks_2` serves"):
        swapping.swap(settings, undeclared, old, why="x", agreed=agreed, clock=CLOCK)
    assert main(["swap", "clicks_2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["declared"]["extra"] == DROPS


def test_definitions_without_a_common_cut_are_not_compared(at_work: Settings, topic: str) -> None:
    settings = at_work
    new, old = both(settings)
    rig.send(settings, topic, LATER)
    driver.run(settings, replace(new, max_rows_per_epoch=1_000), until="drain")

    with pytest.raises(LakeError, match=r"expected epochs that end at the same offsets[\s\S]*cutover replay clicks_2"):
        compare_definitions(settings, new, old)


def test_a_definition_that_has_read_further_is_compared_and_not_served(at_work: Settings, topic: str) -> None:
    settings = at_work
    new, old = both(settings)
    replay_definition(settings, new, old)
    rig.send(settings, topic, LATER)
    driver.run(settings, new, until="drain")

    found = compare_definitions(settings, new, old)
    assert (found.counts, found.beyond) == ({}, len(LATER))
    with pytest.raises(
        DefinitionError, match=rf"{len(LATER)} offsets lie behind[\s\S]*`cutover replay clicks_2` reads"
    ):
        swapping.swap(settings, new, old, why="x", agreed=ALL_SEEN, clock=CLOCK)

    driver.run(settings, old, until="drain")
    assert compare_definitions(settings, new, old).beyond == 0
    swapping.swap(settings, new, old, why="x", agreed=ALL_SEEN, clock=CLOCK)
    assert swaps.served_by(settings, "clicks") == "clicks_2"
