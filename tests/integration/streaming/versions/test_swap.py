"""A changed definition next to the one that serves: filled up to its epoch, compared by its note, swapped and back."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition import (
    ApproxDistinct,
    Bag,
    Change,
    Count,
    First,
    Global,
    Lookup,
    Min,
    Pipeline,
    Quantile,
    Sessions,
    Sliding,
    Stddev,
    Sum,
    TopK,
)
from cutover.definition.loading import catalogue
from cutover.definition.measures.kinds import Measure
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.control import pins, served
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal import SequenceConflictError
from cutover.lake.serving import serving_table
from cutover.pipeline_lake import PipelineLake, serving_uri
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat, only_driver, run_folder
from cutover.streaming.replacement import swap as swapping
from cutover.streaming.replacement.compare import (
    Coverage,
    compare_definitions,
    compare_versions,
    find_coverage,
    find_stream,
    reject_unfair,
)
from cutover.streaming.replacement.replay import Agreed, replay_definition, replay_log
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.log.losses import LOSS

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
        changed=("newest",), rows=("added",), classes=("filtered",), within="k = 'drop' OR k IN ('a', 'b')",
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
    driver.run_driver(PipelineLake(settings, rig.pipeline(topic, cap=20)), until="drain")
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
    lake = PipelineLake(settings, old)
    serving_table.publish(lake)
    rows_before = rows_of(settings, "clicks")
    rig.send(settings, topic, LATER)  # the old one has not read them: the new one is read up to its epoch

    with only_driver(run_folder(settings, "clicks"), "clicks"):  # as its running driver holds it
        assert main(["replay", "clicks_2"]) == 0
        assert "has read the log up to an epoch of clicks" in capsys.readouterr().out
        assert rig.records(PipelineLake(settings, new))[-1].end == rig.records(lake)[-1].end

        assert main(["swap", "clicks_2"]) == 0
        output = capsys.readouterr().out
        assert f"{DROPS} extra" in output
        assert "rows differ in nothing else" in output
        assert (served.served_by(settings, "clicks"), rows_of(settings, "clicks")) == ("clicks", rows_before)

        assert main(["swap", "clicks_2", "--why", "dropped clicks are paid for"]) == 0
        assert main(["serve-view", "clicks", "--json"]) == 0
    published = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (published["served"], published["months"]) == ("clicks_2", [])  # the swap has published it
    serving_table.publish(PipelineLake(settings, new))
    assert rows_of(settings, "clicks") == rows_of(settings, "clicks_2") != rows_before
    (row,) = served.read_swaps(settings, "clicks")
    assert (row.served_by, row.why) == ("clicks_2", "dropped clicks are paid for")
    assert "0 of" in row.evidence

    assert_old_file_may_go(settings)
    driver.run_driver(lake, until="drain")  # the old one continues, so a swap back is possible
    assert main(["swap", "clicks", "--back", "--why", "a regression"]) == 0
    assert {(row["k"], row["clicks"]) for row in rows_of(settings, "clicks")} >= {("b", 4)} | {
        (row["k"], row["clicks"]) for row in rows_before if str(row["window_start"])[14:16] == "00"
    }
    assert main(["swap", "clicks", "--back", "--why", "again"]) == 2
    assert "it serves itself" in capsys.readouterr().err


def assert_old_file_may_go(settings: Settings) -> None:
    """The old definition's name is served by the other one."""
    (settings.home / "definitions" / "clicks.py").rename(settings.home / "kept.py")
    text = (settings.home / "kept.py").read_text(encoding="utf-8").replace("CLICKS =", "_ = CLICKS =")
    (settings.home / "definitions" / "clicks_2.py").write_text(text + "\ndel _, CLICKS\n", encoding="utf-8")
    assert main(["serve-view", "clicks"]) == 0
    (settings.home / "definitions" / "clicks_2.py").unlink()
    (settings.home / "kept.py").rename(settings.home / "definitions" / "clicks.py")


def test_what_the_note_does_not_declare_is_a_difference(at_work: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings = at_work
    new, old = both(settings)
    replay_definition(settings, new, old, CLOCK)
    note = new.change
    assert note is not None
    for change, counts in (
        (note, {}),
        (replace(note, rows=(), within="k = 'a'"), {"changed": DROPS, "extra": DROPS}),
        (replace(note, within="k = 'drop'"), {"changed": 2 * DROPS}),
        (replace(note, within="window_start >= TIMESTAMP '2026-03-01 12:10:00'"), {"changed": 2, "extra": 1}),
        (replace(note, within="1 / (length(k) - 1) > 0"), {"changed": 2 * DROPS}),  # where it fails nothing may differ
    ):
        definitions = compare_definitions(settings, replace(new, change=change), old)
        assert (definitions.counts, definitions.exit_code) == (counts, int(bool(counts))), change
        assert sum(definitions.counts.values()) + sum(definitions.declared.values()) == 3 * DROPS
        assert definitions.classes == {}
    definitions = compare_definitions(settings, replace(new, change=replace(note, classes=())), old)
    assert (definitions.classes, definitions.exit_code) == ({"filtered": (20, 0)}, 1)

    undeclared = replace(new, change=replace(note, rows=()))
    with pytest.raises(DefinitionError, match=f"expected 0 rows that differ from clicks stream-0, got {DROPS}"):
        swapping.swap_definition(settings, undeclared, old, reason="x", agreed=ALL_SEEN, clock=CLOCK)
    assert served.served_by(settings, "clicks") == "clicks"
    agreed = Agreed(differences=DROPS)
    swapping.swap_definition(settings, undeclared, old, reason="x", agreed=agreed, clock=CLOCK)
    with pytest.raises(DefinitionError, match="got `clicks`, which `clicks_2` serves"):
        swapping.swap_definition(settings, undeclared, old, reason="x", agreed=agreed, clock=CLOCK)
    assert main(["swap", "clicks_2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["declared"]["extra"] == DROPS


def test_definitions_without_a_common_cut_are_not_compared(at_work: Settings, topic: str) -> None:
    settings = at_work
    new, old = both(settings)
    rig.send(settings, topic, LATER)
    driver.run_driver(PipelineLake(settings, replace(new, max_rows_per_epoch=1_000)), until="drain")

    with pytest.raises(LakeError, match=r"expected epochs that end at the same offsets[\s\S]*cutover replay clicks_2"):
        compare_definitions(settings, new, old)


def test_a_definition_that_reads_on_is_swapped_once_it_has_read_as_much(
    at_work: Settings, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers never see an older state: not by a swap, not by a swap back, unless a person confirms it."""
    settings = at_work
    new, old = both(settings)
    lake = PipelineLake(settings, old)
    serving_table.publish(lake)
    replay_definition(settings, new, old, CLOCK)
    rig.send(settings, topic, LATER)
    driver.run_driver(lake, until="drain")
    serving_table.publish(lake)
    rows_before = rows_of(settings, "clicks")

    with pytest.raises(LakeError, match=r"clicks_2 stream-0: expected to have read what clicks stream-0 has"):
        swapping.swap_definition(settings, new, old, reason="x", agreed=ALL_SEEN, clock=CLOCK)
    with pytest.raises(LakeError, match="expected to have read what"):
        swapping.swap_definition(settings, new, old, reason="x", agreed=Agreed(uncompared=True), clock=CLOCK)
    assert (served.served_by(settings, "clicks"), rows_of(settings, "clicks")) == ("clicks", rows_before)

    driver.run_driver(PipelineLake(settings, new), until="drain")
    rig.send(settings, topic, [replace(event, id=event.id + 100) for event in LATER])
    driver.run_driver(PipelineLake(settings, new), until="drain")
    definitions = compare_definitions(settings, new, old)
    assert (definitions.counts, definitions.beyond) == ({}, len(LATER))
    swap_row = swapping.swap_definition(settings, new, old, reason="x", agreed=ALL_SEEN, clock=CLOCK)
    assert (swap_row.stale_pipelines, rows_of(settings, "clicks")[-1]["clicks"]) == ((), 2 * len(LATER))

    assert main(["swap", "clicks", "--back", "--why", "x"]) == 2
    assert "readers would go back in time" in capsys.readouterr().err
    assert main(["swap", "clicks", "--back", "--anyway", "--why", "x"]) == 0
    assert rows_of(settings, "clicks") == rows_before


def test_what_is_no_difference_of_the_definitions_is_not_compared(at_work: Settings) -> None:
    """Exclude rows read from another start, lost, doubled, or joined with other versions: none is judged by them."""
    settings = at_work
    new, old = both(settings)
    replay_definition(settings, new, old, CLOCK)
    serving, new_coverage = (
        find_coverage(
            settings,
            find_stream(PipelineLake(settings, pipeline)),
            rig.records(PipelineLake(settings, pipeline))[-1].epoch,
        )
        for pipeline in (old, new)
    )
    reject_unfair(serving, new_coverage)
    first_record = new_coverage.records[0]
    later = replace(first_record, start={0: 3, 1: 0})
    priced = replace(first_record, dimensions={"prices": 2}, dimension_ids={"prices": "p"})
    looked_up = {"prices": Lookup(table="prices", on={"k": "k"}, columns={"price": "bigint"})}
    ids = replace(old.source, record_id="id")
    for changes, message in (
        (
            replace(new_coverage, records=[later, *new_coverage.records[1:]]),
            "partition 0 is read from offset 3 by clicks_2",
        ),
        (replace(new_coverage, records=[replace(first_record, delivery="at_least_once")]), "delivers at_least_once"),
        (replace(new_coverage, losses=[LOSS]), "continues after a recorded loss"),
        (with_pipeline(new_coverage, lookups=looked_up, records=[priced]), None),
        (
            with_pipeline(new_coverage, source=ids, records=[replace(first_record, counts={"late": 2})]),
            "has 2 late rows of records",
        ),
    ):
        if message is None:
            coverage = with_pipeline(serving, lookups=looked_up, records=[replace(priced, dimensions={"prices": 1})])
            with pytest.raises(LakeError, match=r"the lookup `prices` was joined at 2 versions"):
                reject_unfair(coverage, replace(changes, records=[replace(priced, start=coverage.records[0].start)]))
            continue
        with pytest.raises(LakeError, match=message):
            reject_unfair(serving, changes)


def with_pipeline(coverage: Coverage, *, records: Sequence[EpochRecord], **changes: Any) -> Coverage:
    """Return the coverage of another definition, with other epochs that begin where those did."""
    stream = replace(coverage.stream, pipeline=replace(coverage.stream.pipeline, **changes))
    return replace(
        coverage, stream=stream, records=[replace(record, start=coverage.records[0].start) for record in records]
    )


def test_an_epoch_that_the_log_does_not_reach_is_refused_and_nothing_is_written(at_work: Settings) -> None:
    settings = at_work
    new, old = both(settings)
    aim = rig.records(PipelineLake(settings, old))[-1].cut
    for offsets, log, message in (
        ({0: 31, 1: 30}, aim.log, "expected records up to offset 31, it ends at 30"),
        (aim.offsets, replace(aim.log, topic_id="other"), "was deleted and recreated"),
        ({0: 1, 1: 1, 7: 1}, aim.log, "Partition 7"),
    ):
        lake = PipelineLake(settings, new)
        with pytest.raises(LogError, match=message):
            driver.run_driver(lake, until="drain", aim=replace(aim, offsets=offsets, log=log))
        assert rig.records(lake) == []


def test_a_replay_ends_at_an_epoch_of_the_driver_at_work(at_work: Settings, topic: str) -> None:
    """The driver commits while the replay compares: both are pinned until a person has compared, also behind a fold."""
    settings = at_work
    _, old = both(settings)
    rig.send(settings, topic, LATER)
    place = run_folder(settings, "clicks")
    beat = HeartbeatWriter(place / "heartbeat.json", first_beat("run", CLOCK), seconds=0.05, clock=CLOCK)
    beat.start()
    lake = PipelineLake(settings, old)
    try:
        reading = threading.Timer(
            1.0, lambda: driver.run_driver(PipelineLake(settings, replace(old, max_rows_per_epoch=7)), until="drain")
        )
        reading.start()
        replay_log(lake, 1, CLOCK)
        reading.join()
    finally:
        beat.end(state="STOPPED", exit_code=0)

    versions = compare_versions(lake, 1)
    assert (versions.counts, versions.beyond, versions.exit_code) == ({}, 0, 0)
    holders = pins.list_all_holders(settings, "clicks", find_stream(lake).version.result_fingerprint, now=CLOCK.now())
    assert holders == ("beside/clicks",)


def test_names_follow_a_chain_and_a_circle_is_broken_by_going_back(at_work: Settings) -> None:
    settings = at_work
    for turn, (name, follower) in enumerate((("clicks", "b"), ("b", "c"))):
        served.record_swap(settings, name, follower, why="x", evidence="", clock=CLOCK, expected_sequence=turn * 0)
    assert served.served_by(settings, "clicks") == "c"
    assert served.list_served_names(settings, "c") == ["c", "b", "clicks"]
    served.record_swap(settings, "c", "clicks", why="x", evidence="", clock=CLOCK, expected_sequence=0)

    with pytest.raises(LakeError, match="found a cycle: clicks, b, c, clicks"):
        served.served_by(settings, "clicks")
    with pytest.raises(SequenceConflictError):
        served.record_swap(settings, "c", "b", why="x", evidence="", clock=CLOCK, expected_sequence=0)
    assert main(["swap", "clicks", "--back", "--why", "x"]) == 0
    assert served.served_by(settings, "c") == "clicks"


MEASURES: dict[str, Measure] = {
    "clicks": Count(),
    "spread": Stddev("CAST(id AS double) / 7"),
    "top": TopK("id", k=3),
    "median": Quantile("id", q=0.5),
    "many": ApproxDistinct("id"),
    "all": Bag("id"),
    "first": First("id"),
}


@pytest.mark.parametrize(
    "changes",
    [
        {"window": Sessions(gap="3 minutes")},
        {"window": Global()},
        {"window": Sliding(size="10 minutes", every="2 minutes")},
    ],
    ids=["sessions", "global", "sliding"],
)
def test_windows_and_measures_of_every_kind_add_up_to_the_same_wherever_epochs_end(
    at_work: Settings, topic: str, changes: dict[str, Any]
) -> None:
    settings = at_work
    old = replace(rig.pipeline(topic, cap=20), name="wide", measures=MEASURES, **changes)
    note = Change(of="wide", why="one more", added=("least",))
    measures: dict[str, Measure] = {**MEASURES, "least": Min("id")}
    new = replace(old, name="wide_2", measures=measures, change=note, max_rows_per_epoch=7)
    driver.run_driver(PipelineLake(settings, old), until="drain")
    replay_definition(settings, new, old, CLOCK)

    definitions = compare_definitions(settings, new, old)
    assert (definitions.counts, definitions.declared, definitions.classes, definitions.exit_code) == ({}, {}, {}, 0)
    assert definitions.rows > 0
    wrong = replace(new, measures={**measures, "clicks": Sum("2")}, change=replace(note, changed=("clicks",)))
    driver.run_driver(PipelineLake(settings, wrong), until="drain")
    definitions = compare_definitions(settings, wrong, old)
    assert definitions.declared == {"changed": definitions.rows}
    assert compare_definitions(
        settings, replace(wrong, change=replace(note, changed=("clicks",), within="k = 'a'")), old
    ).counts
