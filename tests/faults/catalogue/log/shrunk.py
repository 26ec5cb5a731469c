"""Empty, shrunk or entirely filtered input: both paths lose the same, so it is rejected, or an alert reports it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from cutover.definition import Lookup, Pipeline, Policy
from cutover.lake.dimensions import load as dimension_load
from cutover.lake.dimensions.dimension import own_uri
from cutover.lake.tables import delta
from cutover.records.classes import Class
from tests.faults.fault import Fault
from tests.faults.refused import count_of
from tests.faults.running import producer
from tests.faults.running.definition import EASY, definition
from tests.faults.running.producer import Meant
from tests.faults.running.rig import Rig
from tests.integration.streaming.rig import Event

NAMES = "names"
ROWS = [*"abcdefghij"]  # keys of the dimension; records have the first two
HALF_FILTERED = Policy(max_late_share=1.0, max_malformed_share=1.0, max_future_share=1.0, max_filtered_share=0.5)
FEW, MANY = 60, 400


def define_lookup(topic: str, policy: Policy) -> Pipeline:
    """Return a definition that leaves out every record whose key the dimension does not have."""
    lookup = Lookup(table=NAMES, on={"k": "k"}, columns={"region": "string"})
    return replace(definition(topic, policy=policy), lookups={NAMES: lookup}, where="region IS NOT NULL")


def _load(rig: Rig, keys: list[str], *, region: str = "north", confirm: bool = False) -> None:
    file = rig.settings.home / "names.csv"
    file.write_text("k,region\n" + "".join(f"{key},{region}\n" for key in keys), encoding="utf-8")
    joined = None if confirm else [("k",)]
    dimension_load.load_dimension(rig.settings, NAMES, Path(file), key=["k"], joined=joined)


def _send(rig: Rig, count: int, *, matched: bool = True) -> None:
    """Send records of two keys; while nothing matches they are meant to be filtered."""
    mean = producer.intend(rig.pipeline)

    def of(event: Event) -> Meant:
        return mean(event) if matched else ("filtered", None, ())

    rig.send(rig.draw(count, keys=("a", "b")), mean=of)


def replace_dimension(rig: Rig, *, keys: str, region: str) -> None:
    """Read some records, and load a file that lacks what the version in force holds."""
    rig.make = partial(define_lookup, rig.topic, EASY)
    _load(rig, ROWS)
    _send(rig, FEW)
    rig.drain()
    rig.refused(lambda: _load(rig, [*keys], region=region))
    rig.note("version", int(delta.open_table(own_uri(rig.settings, NAMES)).version()))
    rig.note("said", rig.said)
    rig.note("rows", len(keys))
    _send(rig, FEW)


def is_refused(rig: Rig) -> bool:
    """The command ended with 2 and wrote no version."""
    return rig.exit_code == 2 and rig.evidence["version"] == 0


def rows_before_and_after_are_named(rig: Rig) -> Iterator[str]:
    """With the commands that show what is loaded and that confirm."""
    row_count = rig.evidence["rows"]
    for words in ("has 10 rows", f"got {row_count} rows", "--confirm", f"cutover dimension show {NAMES}"):
        if words not in rig.evidence["said"]:
            yield f"expected {words} in: {rig.evidence['said']}"


def empty_on_purpose(rig: Rig) -> None:
    """Confirm that the dimension is empty: what comes from then on matches nothing."""
    rig.make = partial(define_lookup, rig.topic, HALF_FILTERED)
    _load(rig, ROWS)
    _send(rig, FEW)
    rig.drain()
    _load(rig, [], confirm=True)
    _send(rig, MANY, matched=False)
    rig.drain()


def send_what_the_filter_leaves_out(rig: Rig) -> None:
    """Records come whose key the definition's condition leaves out."""
    rig.define(policy=HALF_FILTERED)
    rig.send(rig.draw(FEW))
    rig.drain()
    rig.send(rig.draw(MANY, keys=("drop",)))
    rig.drain()


def are_filtered(rig: Rig) -> bool:
    """At least all records sent are counted as filtered."""
    return count_of(rig, Class.FILTERED) >= MANY


def roll_back(rig: Rig) -> None:
    """Roll back to the previous version, and continue sending."""
    dimension_load.roll_back_dimension(rig.settings, NAMES, 0, joined=[("k",)])
    _send(rig, 2 * MANY)
    rig.drain()


def send_on(rig: Rig) -> None:
    """The producer sends records that pass, more than were left out."""
    rig.send(rig.draw(2 * MANY))
    rig.drain()


FAULTS = (
    *(
        Fault(
            id="F45",
            variant=variant,
            family="input",
            title=f"a dimension is loaded from a file that {defect}",
            inject=partial(replace_dimension, keys=keys, region=region),
            happened=is_refused,
            holds=(rows_before_and_after_are_named,),
            exit_code=2,
        )
        for variant, defect, keys, region in (
            ("empty", "has no rows", "", "north"),
            ("half", "has half of the rows", "abcde", "north"),
            ("keys", "has other keys", "qrstuvwxyz", "north"),
            ("column", "has no value in a column", "abcdefghij", ""),
        )
    ),
    Fault(
        id="F45",
        variant="confirmed",
        family="input",
        title="an empty dimension is confirmed, so that no record matches",
        inject=empty_on_purpose,
        happened=are_filtered,
        heal=roll_back,
        alert="FilteredRateHigh",
    ),
    Fault(
        id="F45",
        variant="filtered",
        family="input",
        title="producers send only records that the filter excludes",
        inject=send_what_the_filter_leaves_out,
        happened=are_filtered,
        heal=send_on,
        alert="FilteredRateHigh",
    ),
)
