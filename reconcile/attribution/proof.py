"""Whether the log bears out what is claimed of a difference: only then it is explained.

Claims come from the ledgers: rows that the stream did not count, merged class by class, make its side equal to the
batch. Each (window, key) of which that is said is folded anew from the log's own records (`claims`): those that the
ledger does not list must give the stream's value, with those of each class the value of that stage, and so in the end
the batch's. What does not is put into `doubtful`, and so stays unexplained; what has left the log is not proven.

A claim that was proven once needs no second look while nothing has changed (`proofs`).

Of records with ids batch may count another one than the stream. No merge shows that: there the stage is the batch's row
where the records that batch counts, by the log alone, give it.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval, select_last_window
from cutover.engine.queries import number
from cutover.errors import LakeError, LogError
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution import claims, log_rows, proof_cache
from cutover.reconcile.attribution.claims import Place, Position, Told
from cutover.reconcile.attribution.log_rows import LogReader, ReadPortion
from cutover.reconcile.comparison.components import MEMBERS
from cutover.reconcile.comparison.diff import diff
from cutover.reconcile.comparison.duplicates import SWAPPED
from cutover.reconcile.comparison.equal import plain
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import DIMENSION, Sides
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.seal import SealBreach
from cutover.reconcile.result.text import count_noun
from cutover.records.classes import Class
from cutover.records.fold import finishable
from cutover.records.reference import ResultRow
from cutover.records.reference.place import place_records
from cutover.settings import Settings

WRONG = "the log's own records do not give what the ledger claims"
GONE = "the records behind it can no longer be read"
UNPROVEN = "unproven"
"""Table of the places of which nobody can say any more whether the claim holds."""

_ASKED = "asked_places"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A place that something is claimed of."""

    number: int  # in `asked_places`
    place: Place
    sides: Sequence[Sequence[tuple[Interval, ResultRow]]]  # its rows on each side that the claim speaks of
    digest: str
    is_known: bool  # it was proven before


@dataclass(slots=True)
class Proof:
    """The log, asked about one comparison."""

    settings: Settings
    pipeline: Pipeline
    evidence: SealEvidence
    log: LogReader | None = None  # None: the cluster of the settings, when there is something to ask
    breach: SealBreach | None = None  # why something can no longer be proven
    found: list[str] = field(default_factory=list)  # digests of claims that were proven now, see `proofs`
    _told: dict[Place, Told] = field(default_factory=dict)
    _gone: set[Place] = field(default_factory=set)

    def with_swaps(self, sides: Sides) -> Sides:
        """Return the sides with the stage in which batch's choice among twins takes the place of the stream's.

        Makes `moved_<n>` and `stage_<n>`: rows for which the log bears out what the stream has, and what batch has.
        """
        if not sides.tells_twins:
            return sides
        n = len(sides.merged)
        moved = (
            self._prove_swapped_twins(sides, stage(n))
            if number(sides.connection, f"SELECT count(*) FROM {SWAPPED}")
            else ()
        )
        _register(sides, "moved_places", moved)
        keys, there = _keys(sides), sides.layout.same_place("m", "r")
        sides.connection.execute(
            f"CREATE TEMP TABLE moved_{n + 1} AS SELECT {keys} FROM {_ASKED} JOIN moved_places USING (__place)"
            if moved
            else f"CREATE TEMP TABLE moved_{n + 1} AS SELECT {keys} FROM {stage(n)} LIMIT 0"
        )
        moves = f"EXISTS (SELECT 1 FROM moved_{n + 1} m WHERE {there})"
        columns = ", ".join(map(identifier, _columns(sides)))
        sides.connection.execute(
            f"CREATE TEMP VIEW {stage(n + 1)} AS SELECT {columns} FROM {stage(n)} r WHERE NOT {moves}"
            f" UNION ALL SELECT {columns} FROM {SharedTable.EXPECTED} r WHERE {moves}"
        )
        return replace(sides, merged=(*sides.merged, Class.DUPLICATE))

    def check(self, sides: Sides, claimed: str) -> tuple[str, ...]:
        """Put into `doubtful` what the log does not bear out, and into `unproven` what it can no longer tell.

        Args:
            sides: With all stages.
            claimed: The query of the places that a cause is claimed for.

        Returns:
            A note where something was claimed.
        """
        merged = [n for n, name in enumerate(("", *sides.merged)) if not self._is_refolded(sides, name)]
        asked = self._ask(sides, claimed, [*map(stage, merged), SharedTable.EXPECTED])
        wrong = [one for one in asked if one.place in self._told and not self._holds(one, len(merged))]
        gone = [one for one in asked if one.place in self._gone]
        for why, some in ((WRONG, wrong), (GONE, gone)):
            _doubt(sides, [one.number for one in some], why)
        _register(sides, "gone_places", [one.number for one in gone])
        sides.connection.execute(
            f"CREATE TEMP TABLE {UNPROVEN} AS SELECT {_keys(sides)} FROM {_ASKED} JOIN gone_places USING (__place)"
        )
        left_out = {one.number for one in (*wrong, *gone)}
        self.found += [one.digest for one in asked if not one.is_known and one.number not in left_out]
        if not asked:
            return ()
        rows = count_noun(len(asked), "row")
        if sides.layout.component:  # rows of sessions that touch are proven together
            rows = f"{count_noun(len(asked), 'group')} of sessions that touch, each"
        text = f"Of {rows} with a cause the log's own records were folded again:"
        return (f"{text} {len(wrong):,} are not borne out, {len(gone):,} can no longer be proven.",)

    @staticmethod
    def _is_refolded(sides: Sides, name: str) -> bool:
        return name == DIMENSION or (name == Class.DUPLICATE and sides.tells_twins)

    def _prove_swapped_twins(self, sides: Sides, before: str) -> Sequence[int]:
        """Return the places of swapped twins, by number, whose batch row the log bears out."""
        diff(sides.connection, sides.layout, SharedTable.EXPECTED, before, into="apart_by_twins")
        there = f"EXISTS (SELECT 1 FROM apart_by_twins a WHERE {sides.layout.same_place('a', 's')})"
        query = f"SELECT DISTINCT {_keys(sides)} FROM {SWAPPED} s WHERE {there}"
        asked = self._ask(sides, query, [before, SharedTable.EXPECTED])
        broken = find_broken_places(sides, self.pipeline)
        proven = [one for one in asked if one.is_known or (one.place in self._told and self._is_of_batch(one))]
        proven = [one for one in proven if one.number not in broken]
        self.found += [one.digest for one in proven if not one.is_known]
        return [one.number for one in proven]

    def _is_of_batch(self, one: _Asked) -> bool:
        told = self._told[one.place]
        return told.are_twins_sound and claims.equal(told.batch, one.sides[-1])

    def _holds(self, one: _Asked, stages: int) -> bool:
        told = self._told[one.place]
        rows = zip(told.stages, one.sides[:stages], strict=True)
        return told.are_twins_sound and all(claims.equal(expected, found) for expected, found in rows)

    def _ask(self, sides: Sides, query: str, tables: Sequence[str]) -> list[_Asked]:
        """Make `asked_places` of a query of places; ask the log about those of which nothing is known yet."""
        keys = _keys(sides)
        numbered = f"SELECT *, row_number() OVER (ORDER BY {keys}) AS __place FROM ({query})"
        sides.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_ASKED} AS {numbered}")
        places = _places(sides, self.pipeline)
        if not places:
            return []
        rows = [_rows(sides, self.pipeline, table) for table in tables]
        listed = _digest_ledger(sides)
        proven_claims = proof_cache.read_proven_claims(self.settings, self.pipeline)
        asked = []
        for n, place in sorted(places.items()):
            mine = [side.get(n, []) for side in rows]
            name = proof_cache.digest(self.evidence.run, place, mine, listed.get(n, ""))
            asked.append(_Asked(number=n, place=place, sides=mine, digest=name, is_known=name in proven_claims))
        self._learn(sides, [one.place for one in asked if not one.is_known])
        return asked

    def _learn(self, sides: Sides, places: Sequence[Place]) -> None:
        new = [p for p in dict.fromkeys(places) if p not in self._told and p not in self._gone]
        if new:
            try:
                self._read(sides, new)
            except (LogError, LakeError) as error:
                self._give_up([p for p in new if p not in self._told], str(error).split("\n", maxsplit=1)[0])

    def _give_up(self, places: Sequence[Place], why: str) -> None:
        self._gone.update(places)
        text = (
            f"Pipeline `{self.pipeline.name}`: windows differ, and whether their causes hold cannot be shown from the"
            f" log: {why}"
        )
        self.breach = self.breach or SealBreach(code="unproven", message=text, runbook="NotComparable")

    def _read(self, sides: Sides, new: Sequence[Place]) -> None:
        """Ask the log about places, portion by portion.

        Raises:
            LogError: No broker answers.
            LakeError: The index or a version of a dimension cannot be read.
        """
        run, log = self.evidence.run, self.log or LogClient(self.settings)
        found = log.describe(run.topic)
        if (found.cluster_id, found.topic_id) != (run.cluster_id, run.topic_id):
            self._give_up(new, f"topic `{run.topic}` is another log by now.")
            return
        earliest = log.earliest(run.topic)
        by_stretch: dict[Interval, list[Place]] = {}
        for place in new:
            by_stretch.setdefault(self.pipeline.window.event_range(place.one), []).append(place)
        stretches = sorted(by_stretch)
        for portion in log_rows.portions(self.settings, self.pipeline, sides.connection, run, stretches):
            inside = [place for n in portion.stretches for place in by_stretch[stretches[n]]]
            why = find_gone_records(portion, earliest, run.topic)
            if why is None:
                self._told |= self._portion(sides, log, portion, stretches, inside)
            else:
                self._give_up(inside, why)

    def _portion(
        self, sides: Sides, log: LogReader, portion: ReadPortion, stretches: Sequence[Interval], places: Sequence[Place]
    ) -> dict[Place, Told]:
        rejoin = Rejoin(self.settings, self.pipeline)
        dimensions = rejoin.at(rejoin.collect_recorded(self.evidence.records))
        raw = list(log_rows.read(log, self.pipeline, self.evidence.run, portion, stretches))
        first, end = (stretches[portion.stretches[0]].start, max(stretches[n].end for n in portion.stretches))
        classes = [str(name) for name in sides.merged if not self._is_refolded(sides, name)]
        rows = place_records(self.pipeline, raw, dimensions)
        return claims.tell(self.pipeline, rows, _ledger(sides.connection, first, end), places, classes)


def find_gone_records(portion: ReadPortion, earliest: Mapping[int, int], topic: str) -> str | None:
    """Return which records of a portion have left the log, in words; None: none have."""
    for offsets in portion.reads:
        for partition, (first, _) in sorted(offsets.items()):
            if first < earliest.get(partition, 0):
                place = format_partition(topic, partition)
                return f"{place}: expected the records from offset {first} on, the log begins at {earliest[partition]}."
    return None


def _ledger(connection: duckdb.DuckDBPyConnection, first: int, end: int) -> dict[Position, str]:
    """Return what the stream's ledger says of records whose windows begin in `[first, end)`."""
    rows = connection.execute(
        f"SELECT _partition, _offset, epoch_us(window_start), _class FROM {SharedTable.LEDGER}"
        " WHERE epoch_us(window_start) >= ? AND epoch_us(window_start) < ?",
        [first, end],
    ).fetchall()
    return {(int(p), int(o), int(start)): str(name) for p, o, start, name in rows}


def _digest_ledger(sides: Sides) -> dict[int, str]:
    """Return a digest of what the ledger says of the window of each place, where twins may lie under other keys."""
    if not sides.tells_twins:
        return {}
    listed = "md5(string_agg(concat_ws(':', _class, _partition, _offset), ',' ORDER BY _partition, _offset, _class))"
    query = (
        f"SELECT __place, said FROM {_ASKED} JOIN (SELECT window_start, {listed} AS said FROM {SharedTable.LEDGER}"
        f" WHERE window_start IN (SELECT window_start FROM {_ASKED}) GROUP BY 1) USING (window_start)"
    )
    return {int(n): str(said) for n, said in sides.connection.execute(query).fetchall()}


def _keys(sides: Sides) -> str:
    return ", ".join(map(identifier, sides.layout.place))


def _columns(sides: Sides) -> list[str]:
    return [str(row[0]) for row in sides.connection.execute(f"DESCRIBE {stage(0)}").fetchall()]


def _places(sides: Sides, pipeline: Pipeline) -> dict[int, Place]:
    """Return the places of `asked_places` by their numbers."""
    keys = "".join(f", a.{identifier(name)}" for name in pipeline.key)
    if not pipeline.window.merges:
        rows = sides.connection.execute(f"SELECT __place, epoch_us(a.window_start), 0{keys} FROM {_ASKED} a").fetchall()
        return {
            int(n): Place(select_last_window(pipeline.window, start), tuple(map(plain, key)))
            for n, start, _, *key in rows
        }
    component = sides.layout.place[0]
    same = " AND ".join(f"m.{k} IS NOT DISTINCT FROM a.{k}" for k in map(identifier, pipeline.key))
    query = (
        f"SELECT DISTINCT __place, epoch_us(m.window_start), epoch_us(m.window_end){keys} FROM {_ASKED} a"
        f" JOIN {MEMBERS} m ON m.window_start = a.{identifier(component)} AND {same}"
    )
    rows = sides.connection.execute(query).fetchall()
    return {int(n): Place(Interval(start, end), tuple(map(plain, key))) for n, start, end, *key in rows}


def _rows(sides: Sides, pipeline: Pipeline, table: str) -> dict[int, list[tuple[Interval, ResultRow]]]:
    """Return the rows of a side by the numbers of `asked_places`."""
    measures = "".join(f", t.{identifier(name)}" for name in pipeline.measures)
    query = (
        f"SELECT __place, epoch_us(t.window_start), epoch_us(t.window_end), t._n{measures} FROM {_ASKED} a"
        f" JOIN {table} t ON {sides.layout.same_place('a', 't')}"
    )
    found: dict[int, list[tuple[Interval, ResultRow]]] = {}
    for place, start, end, n, *values in sides.connection.execute(query).fetchall():
        row = ResultRow(
            n=-1 if n is None else int(n), measures=dict(zip(pipeline.measures, map(plain, values), strict=True))
        )
        found.setdefault(int(place), []).append((Interval(start, end), row))
    return found


def find_broken_places(sides: Sides, pipeline: Pipeline) -> set[int]:
    """Return the numbers of places where batch's states do not give its own measures: the log tells of these alone."""
    measured = {value.name: value for value in sides.layout.values if value.is_measure}
    finishes = {name: text for name, text in compile_pipeline(pipeline).finishes.items() if text != name}
    differs = [measured[name].differs(f"({text})", identifier(name)) for name, text in finishes.items()]
    relation = finishable(pipeline, f"(SELECT * FROM {SharedTable.EXPECTED})")
    query = (
        f"SELECT DISTINCT __place FROM {_ASKED} a JOIN (SELECT * FROM {relation} AS own"
        f" WHERE {' OR '.join(differs) or 'false'}) t ON {sides.layout.same_place('a', 't')}"
    )
    return {int(row[0]) for row in sides.connection.execute(query).fetchall()}


def _register(sides: Sides, name: str, numbers: Sequence[int]) -> None:
    sides.connection.register(name, pa.table({"__place": pa.array(numbers, pa.int64())}))


def _doubt(sides: Sides, numbers: Sequence[int], why: str) -> None:
    _register(sides, "doubted", numbers)
    sides.connection.execute(
        f"INSERT INTO {SharedTable.DOUBTFUL} BY NAME SELECT {_keys(sides)}, {literal(why)} AS why FROM {_ASKED}"
        " JOIN doubted USING (__place)"
    )
