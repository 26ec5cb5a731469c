"""Proof of causes from the log: a difference is explained only if the log's records confirm its claim.

A claim comes from the ledgers: rows that the stream did not count, merged class by class, make its side equal to the
batch. Each (window, key) with a claim is folded again from the log's records (`claims`): the records that the ledger
does not list must yield the stream's value, those plus the records of each class the value of that stage, and all of
them the batch's value. A contradicted claim is added to `doubtful`, so its row stays unexplained; a claim whose records
have left the log is not proven.

Of records with the same id, batch may count a different one than the stream. No merge can show that: the last stage
then has the batch's row in every place where the records that batch counts, taken from the log alone, yield it.

A late row differs permanently, while the log eventually deletes its records. So proven claims are cached with a digest
of all inputs of the proof: a claim stays proven, and is not read from the log again, while these are unchanged.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or a constant
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval, select_last_window
from cutover.engine.queries import fetch_number
from cutover.errors import LakeError, LogError
from cutover.lake.batch_runs import BatchRun
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.journal import Journal
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution import log_rows
from cutover.reconcile.attribution.log_rows import FoldedPlace, LogReader, Place, Position, ReadPortion
from cutover.reconcile.comparison.diff import diff_relations
from cutover.reconcile.comparison.digests import MEMBERS
from cutover.reconcile.comparison.layout import SharedTable, stage, to_plain
from cutover.reconcile.comparison.sides import SWAPPED, Sides
from cutover.reconcile.journal_rows import ProvenClaims
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.finding import DIMENSION, SealBreach
from cutover.reconcile.result.text import count_noun
from cutover.records.classes import Class
from cutover.records.fold import make_finishable
from cutover.records.reference import ResultRow
from cutover.records.reference.run import place_records

Side = Sequence[tuple[Interval, ResultRow]]

CONTRADICTED = "the log's records contradict the ledger"
UNREADABLE = "its records can no longer be read"
UNPROVEN = "unproven"
"""Table of the places whose claim can no longer be checked."""

_CLAIMED = "claimed_places"


def compute_claim_digest(run: BatchRun, place: Place, sides: Sequence[Side], ledger: str) -> str:
    """Return the digest of one claim: its log, its place, all rows of the place on all sides, and the ledger's rows.

    Args:
        run: Batch run that identifies the log.
        place: The row, or the sessions, of the claim.
        sides: The stream's rows after each class, then the batch's.
        ledger: Digest of the ledger's rows that can matter in addition to these values; empty if none can.
    """
    rows = [
        [(*window, row.n, list(row.measures.items())) for window, row in sorted(side, key=_start)] for side in sides
    ]
    claim = (version("cutover"), run.cluster_id, run.topic_id, place.interval, place.key, rows, ledger)
    return sha256(repr(claim).encode()).hexdigest()[:32]


def _start(row: tuple[Interval, ResultRow]) -> Interval:
    return row[0]


def read_proven_claims(lake: PipelineLake) -> frozenset[str]:
    """Read the digests of all claims that were proven under a definition.

    Raises:
        LakeError: The table cannot be read.
    """
    rows = Journal(lake.settings, lake.name, ProvenClaims).read()
    fingerprint = result_fingerprint(lake.pipeline)
    return frozenset(digest for row in rows if row.result_fingerprint == fingerprint for digest in row.digests)


def save_proofs(lake: PipelineLake, digests: Sequence[str]) -> None:
    """Append the digests of newly proven claims."""
    if digests:
        claims = ProvenClaims(
            pipeline=lake.name,
            result_fingerprint=result_fingerprint(lake.pipeline),
            at=datetime.now(UTC),
            digests=tuple(sorted(digests)),
        )
        Journal(lake.settings, lake.name, ProvenClaims).append(claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """Claim about one place, with the rows that it must explain."""

    number: int  # row in `claimed_places`
    place: Place
    sides: Sequence[Sequence[tuple[Interval, ResultRow]]]  # its rows on each side that the claim covers
    digest: str
    is_proven: bool  # by an earlier comparison


@dataclass(slots=True)
class Proof:
    """Claims of one comparison, checked against the log."""

    lake: PipelineLake
    evidence: SealEvidence
    log: LogReader | None = None  # None: the cluster of the settings, contacted only if there is a claim
    breach: SealBreach | None = None  # reason why a claim can no longer be proven
    proven: list[str] = field(default_factory=list)  # digests of claims proven by this comparison, see `proof_cache`
    _folded: dict[Place, FoldedPlace] = field(default_factory=dict)
    _unreadable: set[Place] = field(default_factory=set)

    def with_swaps(self, sides: Sides) -> Sides:
        """Return the sides with one more stage, in which batch's choice among twins replaces the stream's.

        Creates `moved_<n>` (keys of the rows whose batch value the log confirms) and `stage_<n>`.
        """
        if not sides.has_twin_tables:
            return sides
        n = len(sides.merged)
        proven = (
            self._prove_swapped_twins(sides, stage(n))
            if fetch_number(sides.connection, f"SELECT count(*) FROM {SWAPPED}")
            else ()
        )
        _register(sides, "proven_places", proven)
        keys, same_place = _keys_sql(sides), sides.layout.same_place("m", "r")
        sides.connection.execute(
            f"CREATE TEMP TABLE moved_{n + 1} AS SELECT {keys} FROM {_CLAIMED} JOIN proven_places USING (__place)"
            if proven
            else f"CREATE TEMP TABLE moved_{n + 1} AS SELECT {keys} FROM {stage(n)} LIMIT 0"
        )
        is_swapped = f"EXISTS (SELECT 1 FROM moved_{n + 1} m WHERE {same_place})"
        columns = ", ".join(map(identifier, _list_columns(sides)))
        sides.connection.execute(
            f"CREATE TEMP VIEW {stage(n + 1)} AS SELECT {columns} FROM {stage(n)} r WHERE NOT {is_swapped}"
            f" UNION ALL SELECT {columns} FROM {SharedTable.EXPECTED} r WHERE {is_swapped}"
        )
        return replace(sides, merged=(*sides.merged, Class.DUPLICATE))

    def check(self, sides: Sides, claimed: str) -> tuple[str, ...]:
        """Add contradicted claims to `doubtful`, and claims that can no longer be checked to `unproven`.

        Args:
            sides: With all stages.
            claimed: Query of the places that have a claimed cause.

        Returns:
            A note with the counts, if there was a claim.
        """
        stage_numbers = [n for n, name in enumerate(("", *sides.merged)) if not self._is_refolded(sides, name)]
        claims_checked = self._collect_claims(sides, claimed, [*map(stage, stage_numbers), SharedTable.EXPECTED])
        contradicted = [
            claim
            for claim in claims_checked
            if claim.place in self._folded and not self._is_confirmed(claim, len(stage_numbers))
        ]
        unreadable = [claim for claim in claims_checked if claim.place in self._unreadable]
        for reason, doubted in ((CONTRADICTED, contradicted), (UNREADABLE, unreadable)):
            _doubt(sides, [claim.number for claim in doubted], reason)
        _register(sides, "unreadable_places", [claim.number for claim in unreadable])
        sides.connection.execute(
            f"CREATE TEMP TABLE {UNPROVEN} AS SELECT {_keys_sql(sides)} FROM {_CLAIMED}"
            " JOIN unreadable_places USING (__place)"
        )
        doubted_numbers = {claim.number for claim in (*contradicted, *unreadable)}
        self.proven += [
            claim.digest for claim in claims_checked if not claim.is_proven and claim.number not in doubted_numbers
        ]
        if not claims_checked:
            return ()
        rows = count_noun(len(claims_checked), "row")
        if sides.layout.component:  # overlapping sessions are proven together
            rows = f"{count_noun(len(claims_checked), 'group')} of overlapping sessions"
        text = f"Causes of {rows} were checked by folding the log's records again:"
        return (f"{text} {len(contradicted):,} contradicted, {len(unreadable):,} can no longer be proven.",)

    @staticmethod
    def _is_refolded(sides: Sides, name: str) -> bool:
        return name == DIMENSION or (name == Class.DUPLICATE and sides.has_twin_tables)

    def _prove_swapped_twins(self, sides: Sides, last_stage: str) -> Sequence[int]:
        """Return the numbers of the places with swapped twins whose batch row the log confirms."""
        diff_relations(sides.connection, sides.layout, SharedTable.EXPECTED, last_stage, into="apart_by_twins")
        differs = f"EXISTS (SELECT 1 FROM apart_by_twins a WHERE {sides.layout.same_place('a', 's')})"
        query = f"SELECT DISTINCT {_keys_sql(sides)} FROM {SWAPPED} s WHERE {differs}"
        swapped = self._collect_claims(sides, query, [last_stage, SharedTable.EXPECTED])
        broken = find_broken_places(sides, self.lake.pipeline)
        proven = [
            claim
            for claim in swapped
            if claim.is_proven or (claim.place in self._folded and self._confirms_batch(claim))
        ]
        proven = [claim for claim in proven if claim.number not in broken]
        self.proven += [claim.digest for claim in proven if not claim.is_proven]
        return [claim.number for claim in proven]

    def _confirms_batch(self, claim: _Claim) -> bool:
        refolded = self._folded[claim.place]
        return refolded.are_twins_sound and log_rows.matches_log(refolded.batch, claim.sides[-1])

    def _is_confirmed(self, claim: _Claim, stages: int) -> bool:
        refolded = self._folded[claim.place]
        stage_pairs = zip(refolded.stages, claim.sides[:stages], strict=True)
        return refolded.are_twins_sound and all(log_rows.matches_log(expected, rows) for expected, rows in stage_pairs)

    def _collect_claims(self, sides: Sides, query: str, tables: Sequence[str]) -> list[_Claim]:
        """Create `claimed_places` from a query of places, and fold those without a cached proof from the log."""
        keys = _keys_sql(sides)
        numbered = f"SELECT *, row_number() OVER (ORDER BY {keys}) AS __place FROM ({query})"
        sides.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_CLAIMED} AS {numbered}")
        places = _read_places(sides, self.lake.pipeline)
        if not places:
            return []
        rows = [_read_rows(sides, self.lake.pipeline, table) for table in tables]
        ledger_digests = _digest_ledger(sides)
        proven = read_proven_claims(self.lake)
        checked = []
        for place_number, place in sorted(places.items()):
            place_sides = [side.get(place_number, []) for side in rows]
            digest = compute_claim_digest(self.evidence.run, place, place_sides, ledger_digests.get(place_number, ""))
            checked.append(
                _Claim(number=place_number, place=place, sides=place_sides, digest=digest, is_proven=digest in proven)
            )
        self._fold_unread(sides, [claim.place for claim in checked if not claim.is_proven])
        return checked

    def _fold_unread(self, sides: Sides, places: Sequence[Place]) -> None:
        unread = [
            place for place in dict.fromkeys(places) if place not in self._folded and place not in self._unreadable
        ]
        if unread:
            try:
                self._read_log(sides, unread)
            except (LogError, LakeError) as error:
                self._mark_unreadable(
                    [place for place in unread if place not in self._folded], str(error).split("\n", maxsplit=1)[0]
                )

    def _mark_unreadable(self, places: Sequence[Place], reason: str) -> None:
        self._unreadable.update(places)
        text = (
            f"Pipeline `{self.lake.name}`: windows differ, and their causes cannot be verified from the log: {reason}"
        )
        self.breach = self.breach or SealBreach(code="unproven", message=text, runbook="NotComparable")

    def _read_log(self, sides: Sides, unread: Sequence[Place]) -> None:
        """Fold places from the log, portion by portion.

        Raises:
            LogError: No broker responds.
            LakeError: The index or a version of a dimension cannot be read.
        """
        run, log = self.evidence.run, self.log or LogClient(self.lake.settings)
        log_id = log.describe(run.topic)
        if (log_id.cluster_id, log_id.topic_id) != (run.cluster_id, run.topic_id):
            self._mark_unreadable(unread, f"topic `{run.topic}` was recreated and is a different log.")
            return
        earliest = log.earliest(run.topic)
        by_stretch: dict[Interval, list[Place]] = {}
        for place in unread:
            by_stretch.setdefault(self.lake.pipeline.window.event_range(place.interval), []).append(place)
        stretches = sorted(by_stretch)
        for portion in log_rows.list_read_portions(self.lake, sides.connection, run, stretches):
            portion_places = [place for n in portion.stretches for place in by_stretch[stretches[n]]]
            reason = find_gone_records(portion, earliest, run.topic)
            if reason is None:
                self._folded |= self._fold_portion(sides, log, portion, stretches, portion_places)
            else:
                self._mark_unreadable(portion_places, reason)

    def _fold_portion(
        self, sides: Sides, log: LogReader, portion: ReadPortion, stretches: Sequence[Interval], places: Sequence[Place]
    ) -> dict[Place, FoldedPlace]:
        rejoin = Rejoin(self.lake)
        dimensions = rejoin.at(rejoin.collect_recorded(self.evidence.records))
        raw = list(log_rows.read_portion(log, self.lake.pipeline, self.evidence.run, portion, stretches))
        start, end = (stretches[portion.stretches[0]].start, max(stretches[n].end for n in portion.stretches))
        classes = [str(name) for name in sides.merged if not self._is_refolded(sides, name)]
        rows = place_records(self.lake.pipeline, raw, dimensions)
        return log_rows.fold_places(
            self.lake.pipeline, rows, _read_ledger(sides.connection, start, end), places, classes
        )


def find_gone_records(portion: ReadPortion, earliest: Mapping[int, int], topic: str) -> str | None:
    """Describe the first records of a portion that have left the log; None if the log still holds all of them."""
    for offsets in portion.reads:
        for partition, (offset, _) in sorted(offsets.items()):
            if offset < earliest.get(partition, 0):
                place = format_partition(topic, partition)
                return (
                    f"{place}: expected the records from offset {offset} on, the log starts at {earliest[partition]}."
                )
    return None


def _read_ledger(connection: duckdb.DuckDBPyConnection, start: int, end: int) -> dict[Position, str]:
    """Read the classes of the ledger's records whose windows start in `[start, end)`."""
    rows = connection.execute(
        f"SELECT _partition, _offset, epoch_us(window_start), _class FROM {SharedTable.LEDGER}"
        " WHERE epoch_us(window_start) >= ? AND epoch_us(window_start) < ?",
        [start, end],
    ).fetchall()
    return {(int(p), int(o), int(start)): str(name) for p, o, start, name in rows}


def _digest_ledger(sides: Sides) -> dict[int, str]:
    """Return a digest of the ledger's rows in the window of each place; only needed where twins may have other keys."""
    if not sides.has_twin_tables:
        return {}
    content = "md5(string_agg(concat_ws(':', _class, _partition, _offset), ',' ORDER BY _partition, _offset, _class))"
    query = (
        f"SELECT __place, listed FROM {_CLAIMED} JOIN (SELECT window_start, {content} AS listed"
        f" FROM {SharedTable.LEDGER}"
        f" WHERE window_start IN (SELECT window_start FROM {_CLAIMED}) GROUP BY 1) USING (window_start)"
    )
    return {int(n): str(text) for n, text in sides.connection.execute(query).fetchall()}


def _keys_sql(sides: Sides) -> str:
    return ", ".join(map(identifier, sides.layout.place))


def _list_columns(sides: Sides) -> list[str]:
    return [str(row[0]) for row in sides.connection.execute(f"DESCRIBE {stage(0)}").fetchall()]


def _read_places(sides: Sides, pipeline: Pipeline) -> dict[int, Place]:
    """Read the places of `claimed_places`, by number."""
    keys = "".join(f", a.{identifier(name)}" for name in pipeline.key)
    if not pipeline.window.merges:
        rows = sides.connection.execute(
            f"SELECT __place, epoch_us(a.window_start), 0{keys} FROM {_CLAIMED} a"
        ).fetchall()
        return {
            int(n): Place(select_last_window(pipeline.window, start), tuple(map(to_plain, key)))
            for n, start, _, *key in rows
        }
    component = sides.layout.place[0]
    same_key = " AND ".join(f"m.{k} IS NOT DISTINCT FROM a.{k}" for k in map(identifier, pipeline.key))
    query = (
        f"SELECT DISTINCT __place, epoch_us(m.window_start), epoch_us(m.window_end){keys} FROM {_CLAIMED} a"
        f" JOIN {MEMBERS} m ON m.window_start = a.{identifier(component)} AND {same_key}"
    )
    rows = sides.connection.execute(query).fetchall()
    return {int(n): Place(Interval(start, end), tuple(map(to_plain, key))) for n, start, end, *key in rows}


def _read_rows(sides: Sides, pipeline: Pipeline, table: str) -> dict[int, list[tuple[Interval, ResultRow]]]:
    """Read the rows of a side, by number of `claimed_places`."""
    measures = "".join(f", t.{identifier(name)}" for name in pipeline.measures)
    query = (
        f"SELECT __place, epoch_us(t.window_start), epoch_us(t.window_end), t._n{measures} FROM {_CLAIMED} a"
        f" JOIN {table} t ON {sides.layout.same_place('a', 't')}"
    )
    rows_by_place: dict[int, list[tuple[Interval, ResultRow]]] = {}
    for place, start, end, n, *values in sides.connection.execute(query).fetchall():
        row = ResultRow(
            n=-1 if n is None else int(n), measures=dict(zip(pipeline.measures, map(to_plain, values), strict=True))
        )
        rows_by_place.setdefault(int(place), []).append((Interval(start, end), row))
    return rows_by_place


def find_broken_places(sides: Sides, pipeline: Pipeline) -> set[int]:
    """Return the numbers of places where batch's states do not yield its measures, which the log cannot confirm."""
    measured = {value.name: value for value in sides.layout.values if value.is_measure}
    finishes = {name: text for name, text in compile_pipeline(pipeline).finishes.items() if text != name}
    differs = [measured[name].differs(f"({text})", identifier(name)) for name, text in finishes.items()]
    relation = make_finishable(pipeline, f"(SELECT * FROM {SharedTable.EXPECTED})")
    query = (
        f"SELECT DISTINCT __place FROM {_CLAIMED} a JOIN (SELECT * FROM {relation} AS batch_rows"
        f" WHERE {' OR '.join(differs) or 'false'}) t ON {sides.layout.same_place('a', 't')}"
    )
    return {int(row[0]) for row in sides.connection.execute(query).fetchall()}


def _register(sides: Sides, name: str, numbers: Sequence[int]) -> None:
    sides.connection.register(name, pa.table({"__place": pa.array(numbers, pa.int64())}))


def _doubt(sides: Sides, numbers: Sequence[int], reason: str) -> None:
    _register(sides, "doubted", numbers)
    sides.connection.execute(
        f"INSERT INTO {SharedTable.DOUBTFUL} BY NAME SELECT {_keys_sql(sides)}, {literal(reason)} AS why"
        f" FROM {_CLAIMED} JOIN doubted USING (__place)"
    )
