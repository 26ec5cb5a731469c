"""Everything that following a job yields: its queries, what was found on the way, and what could not be followed."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.jobs.paths import AssignmentLog
from cutover.parity.jobs.values import Arm, Frame, JobValue, Writer, mark_parameters
from cutover.parity.rules import Construct

Found = tuple[int, Construct, str]
"""Line, construct, and what it is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JobStep:
    """An operation of a job on a table, a path or a topic."""

    target: str  # as `normalize_target` returns it; empty: not known
    line: int
    place: int  # in the order of the steps
    root: int  # line of the function that no function of the file calls; 0 for the module
    site: tuple[int, ...]  # lines of the calls that led here, with the rounds of loops
    branches: frozenset[Arm]  # that were taken


@dataclass(frozen=True, eq=False, kw_only=True)
class Query(JobStep):
    """A stream that is started, or a batch that is written."""

    writer: Writer
    has_root: bool = False  # the session says below which folder checkpoints are
    is_partial: bool = False  # it overwrites some partitions or rows only


@dataclass(frozen=True, eq=False, kw_only=True)
class Removal(JobStep):
    """Rows that are removed: TRUNCATE, DELETE, DROP, CREATE OR REPLACE, or a folder that is deleted."""

    what: str
    condition: str | None = None  # of DELETE, as Spark's SQL; None: all rows


@dataclass(eq=False)
class Sink:
    """Effects of a function of foreachBatch on its micro-batch."""

    batches: list[Frame] = field(default_factory=list)
    writes: list[Query] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    merged: list[Frame] = field(default_factory=list)  # rows that MERGE takes from
    loops: int = 0  # that were being followed when it was called
    swallowed: set[int] = field(default_factory=set)  # lines of `try` after whose failed writes it goes on
    inserts: set[int] = field(default_factory=set)  # lines where collected rows are inserted by another client
    sums: set[int] = field(default_factory=set)  # lines of MERGE that add to columns of the target
    merges: bool = False
    has_gap: bool = False

    @property
    def effects(self) -> int:
        """Return how many writes of any kind were seen."""
        return len(self.writes) + len(self.inserts) + len(self.merged) + self.merges


@dataclass(eq=False)
class Trace:
    """Facts about one job, gathered while its statements are followed."""

    found: set[Found] = field(default_factory=set)
    queries: list[Query] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    views: dict[str, JobValue] = field(default_factory=dict)
    assignment_log: AssignmentLog = field(default_factory=AssignmentLog)
    site: list[int] = field(default_factory=list)  # lines of the calls that are being followed; rounds are negative
    branches: list[Arm] = field(default_factory=list)  # that were taken to get here
    root: int = 0  # line of the function that no function of the file calls; 0 for the module
    places: int = 0  # steps so far
    database: str = ""  # that USE or setCurrentDatabase has set
    is_dynamic: bool = False  # spark.sql.sources.partitionOverwriteMode is set
    sinks: list[Sink] = field(default_factory=list)  # functions of micro-batches that are being followed
    sql: set[Found] = field(default_factory=set)  # found in texts of SQL
    called: set[tuple[int, str]] = field(default_factory=set)  # functions in SQL that are not Spark's own
    registered: set[str] = field(default_factory=set)  # functions that the job makes known to SQL
    outside: set[tuple[int, str]] = field(default_factory=set)  # calls of functions of other modules
    defaults: dict[str, JobValue] = field(default_factory=dict)  # of arguments of the command line, by their names
    zone: bool = False  # the session's time zone is set
    checkpoint_root: bool = False  # spark.sql.streaming.checkpointLocation is set
    steps: int = 0  # operations of Spark that were followed

    def add_gap(self, line: int, subject: str) -> None:
        """Note a place that cannot be followed."""
        self.found.add((line, Construct.NOT_UNDERSTOOD, subject))
        for sink in self.sinks:
            sink.has_gap = True

    def add_query(self, writer: Writer, line: int, target: str, *, is_partial: bool = False) -> None:
        """Note a stream that is started or a batch that is written."""
        self.steps += 1
        self.places += 1
        query = Query(
            writer=writer,
            line=line,
            site=(*self.site, line),
            branches=frozenset(self.branches),
            target=self._qualify(target),
            place=self.places,
            root=self.root,
            has_root=self.checkpoint_root,
            is_partial=is_partial or self.is_dynamic or "replaceWhere" in writer.options,
        )
        if self.sinks and not writer.is_stream:
            self.sinks[-1].writes.append(query)
        else:
            self.queries.append(query)

    def add_removal(self, target: str, line: int, subject: str, condition: str | None = None) -> None:
        """Note rows of a table or a path that the job removes."""
        self.places += 1
        removal = Removal(
            line=line,
            site=(*self.site, line),
            branches=frozenset(self.branches),
            target=self._qualify(target),
            place=self.places,
            root=self.root,
            what=subject,
            condition=condition,
        )
        (self.sinks[-1].removals if self.sinks else self.removals).append(removal)

    def _qualify(self, target: str) -> str:
        """Return the normalized name of a table with the database in use, or of a path."""
        name = normalize_target(target)
        return f"{self.database}.{name}" if self.database and name and not set("./") & set(name) else name

    def add_sum(self, line: int) -> None:
        """Note a MERGE that adds rows to columns of its target."""
        for sink in self.sinks:
            sink.sums.add(line)
        if not self.sinks:
            self.add_gap(line, "MERGE that adds to a column: whether the next run adds the same rows again")

    def check_sql(self, text: str | None, line: int, *, is_statement: bool = False) -> None:
        """Note what is found in SQL that the job hands over as a text."""
        if text is None:
            return
        statement = text if is_statement else f"SELECT {text}"
        try:
            findings = sql.check_sql(statement, "")
        except DefinitionError:
            return
        self.sql |= {(line, finding.construct, finding.what) for finding in findings}
        self.called |= {(line, name) for _, name in sql.list_unknown_functions(statement)}

    def keep(self, frame: Frame) -> Frame:
        """Note a DataFrame and return it."""
        self.steps += 1
        self.frames.append(frame)
        return frame


def normalize_target(name: str) -> str:
    """Return a name of a table or a path in the form in which Python and SQL agree; empty for one that is not known."""
    text = re.sub(r"^(delta|parquet|iceberg|hudi)\.(?=[`/{])", "", mark_parameters(name)).replace("`", "")
    text = re.sub(r"^(dbfs:|file://)(?=/)", "", text).rstrip("/").lower()
    return "" if "?" in text or text == "query" else text


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of a call."""

    node: ast.Call
    positional: Sequence[JobValue]
    keywords: Mapping[str, JobValue]
    is_complete: bool = True  # no `*` or `**` of something that is not known

    def get(self, place: int, *names: str) -> JobValue | None:
        """Return an argument by its place or one of its names; a negative place has none."""
        if 0 <= place < len(self.positional):
            return self.positional[place]
        return next((self.keywords[name] for name in names if name in self.keywords), None)

    @property
    def values(self) -> tuple[JobValue, ...]:
        """Return positional arguments, then those given by keyword."""
        return (*self.positional, *self.keywords.values())
