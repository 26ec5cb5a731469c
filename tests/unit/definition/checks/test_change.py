"""Change notes: a note that contradicts its own definition or the replaced one is rejected with the field's name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.cli.app import main
from cutover.definition import Avg, Change, Count, Daily, Fixed, Join, Lateness, Pipeline, SelfJoin, Sum, Topic
from cutover.definition.checks.change import check_pair
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.fingerprint import describe_version
from cutover.errors import DefinitionError

TOPIC = Topic(name="t", schema="at timestamp, shop string, amount bigint, seq bigint NOT NULL", event_time="at")
OLD = Pipeline(
    name="old",
    source=TOPIC,
    key=("shop",),
    window=Fixed(hours=1),
    measures={"n": Count(), "paid": Sum("amount"), "mean": Avg("amount")},
)
NOTE = Change(of="old", why="returns do not count", added=("most",), removed=("mean",), changed=("paid",))
NEW = replace(OLD, name="new", measures={"n": Count(), "paid": Sum("-amount"), "most": Sum("seq")}, change=NOTE)

OWN: Mapping[str, tuple[dict[str, Any], str]] = {
    "of itself": ({"of": "new"}, "change.of: expected another pipeline"),
    "no name": ({"of": "../x"}, "change.of"),
    "no reason": ({"why": "  "}, "change.why: expected a reason of 1 to 500"),
    "an added measure that is not there": ({"added": ("gone",)}, "change.added: expected a measure of this definition"),
    "a removed measure that is there": ({"removed": ("n",)}, "change.removed: expected a measure that"),
    "added and changed": ({"changed": ("most",)}, "`most` as both"),
    "other rows": ({"rows": ("moved",)}, "change.rows: expected a tuple of any of added, removed"),
    "other classes": ({"classes": ("late",)}, "change.classes: expected a tuple of any of malformed, filtered"),
    "a text for a tuple": ({"added": "most"}, "change.added: expected a tuple of measures"),
    "a reason that is no text": ({"why": 3}, "change.why: expected a reason"),
    "within of nothing": ({"changed": (), "within": "shop = 'a'"}, "`changed` measures or `rows` with it"),
    "within that is no condition": ({"within": "shop"}, "change.within: expected a condition, got string"),
    "within of a measure": ({"within": "paid > 3"}, "change.within"),
}


@pytest.mark.parametrize("case", OWN)
def test_a_note_that_contradicts_its_definition_is_rejected(case: str) -> None:
    changes, message = OWN[case]

    with pytest.raises(DefinitionError) as refused:
        check_definition(replace(NEW, change=replace(NOTE, **changes)))

    assert message in str(refused.value)


def test_a_note_changes_no_version() -> None:
    assert describe_version(NEW) == describe_version(replace(NEW, change=None))


OTHER: Mapping[str, tuple[Pipeline, Pipeline, str]] = {
    "no note": (replace(NEW, change=None), OLD, "got none"),
    "another's note": (NEW, replace(OLD, name="third"), "got one of `old`"),
    "another topic": (replace(NEW, source=replace(TOPIC, name="u")), OLD, "source: expected the topics of `old`"),
    "another topic on the right": (
        replace(NEW, join=Join(right=replace(TOPIC, name="u"), on={"shop": "shop"})),
        replace(OLD, join=SelfJoin(on=("shop",), left="true", right="true")),
        "source: expected the topics of `old`",
    ),
    "another window": (replace(NEW, window=Daily(zone="Europe/Oslo")), OLD, "window: expected that of `old`"),
    "another key": (replace(NEW, key=("seq",)), OLD, "key: expected that of `old`"),
    "a key of another type": (
        NEW,
        replace(OLD, source=replace(TOPIC, schema=TOPIC.schema.replace("shop string", "shop bigint"))),
        "key: expected that of `old`",
    ),
    "another lateness": (
        replace(NEW, lateness=Lateness(allowed="1 day")),
        OLD,
        "change.lateness: expected True, since windows close",
    ),
    "one changelog": (replace(NEW, changelog="c"), replace(OLD, changelog="c"), "changelog: expected another topic"),
    "each in place of the other": (NEW, replace(OLD, change=Change(of="new", why="x")), "names `new`"),
    "an undeclared measure": (replace(NEW, change=replace(NOTE, added=())), OLD, "change.added: expected most"),
    "a measure that went": (replace(NEW, change=replace(NOTE, removed=())), OLD, "change.removed: expected mean"),
    "another type": (
        replace(NEW, measures={**NEW.measures, "n": Avg("amount")}),
        OLD,
        "change.changed: expected `n`, which was bigint, got double",
    ),
}


@pytest.mark.parametrize("case", OTHER)
def test_a_note_that_contradicts_the_old_definition_is_rejected(case: str) -> None:
    new, old, message = OTHER[case]

    with pytest.raises(DefinitionError) as refused:
        check_pair(new, old)

    assert message in str(refused.value)


def test_a_valid_note_is_accepted() -> None:
    check_definition(NEW)
    check_pair(NEW, OLD)
    check_pair(replace(NEW, lateness=Lateness(allowed="1 day"), change=replace(NOTE, lateness=True)), OLD)
    check_pair(replace(NEW, key=("shop", "seq")), replace(OLD, key=("seq", "shop")))


TEXT = """from cutover.definition import Change, Count, Fixed, Pipeline, Topic

TOPIC = Topic(name="t", schema="at timestamp, shop string", event_time="at")
NEW = Pipeline(name="new", source=TOPIC, key=("shop",), window=Fixed(hours=2), measures={{"n": Count()}},
               change=Change(of="old", why="two hours"))
{old}
"""
OTHER_WINDOW = 'OLD = Pipeline(name="old", source=TOPIC, key=("shop",), window=Fixed(hours=1), measures={"n": Count()})'


@pytest.mark.parametrize(
    ("old", "message"),
    [("", "the definition `old` does not exist"), (OTHER_WINDOW, "cannot be compared: Pipeline `new`: window")],
)
def test_lint_reports_definitions_that_cannot_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, message: str
) -> None:
    (tmp_path / "new.py").write_text(TEXT.format(old=old), encoding="utf-8")
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path))

    assert main(["lint", "new"]) == 0

    assert message in capsys.readouterr().out
