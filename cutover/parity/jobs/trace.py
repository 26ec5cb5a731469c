"""Everything that following a job yields: its queries, what was found on the way, and what could not be followed."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.jobs.values import Frame, JobValue, Writer
from cutover.parity.rules import Construct

Found = tuple[int, Construct, str]
"""Line, construct, and what it is."""


@dataclass(frozen=True, eq=False)
class Query:
    """A stream that is started, or a batch that is written."""

    writer: Writer
    line: int
    site: tuple[int, ...]  # lines of the calls that led here, with the rounds of loops
    branches: frozenset[tuple[int, int]]  # arms of conditions that were taken
    target: str = ""
    has_root: bool = False  # the session says below which folder checkpoints are


@dataclass(eq=False)
class Sink:
    """What the function of a micro-batch does with it."""

    writes: list[Query] = field(default_factory=list)
    merges: bool = False
    has_gap: bool = False


@dataclass(eq=False)
class Trace:
    """Facts about one job, gathered while its statements are followed."""

    found: set[Found] = field(default_factory=set)
    queries: list[Query] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    views: dict[str, JobValue] = field(default_factory=dict)
    sinks: list[Sink] = field(default_factory=list)  # functions of micro-batches that are being followed
    sql: set[Found] = field(default_factory=set)  # found in texts of SQL
    called: set[tuple[int, str]] = field(default_factory=set)  # functions in SQL that are not Spark's own
    registered: set[str] = field(default_factory=set)  # functions that the job makes known to SQL
    outside: set[tuple[int, str]] = field(default_factory=set)  # calls of functions of other modules
    zone: bool = False  # the session's time zone is set
    checkpoint_root: bool = False  # spark.sql.streaming.checkpointLocation is set
    steps: int = 0  # operations of Spark that were followed

    def add_gap(self, line: int, what: str) -> None:
        """Note a place that cannot be followed."""
        self.found.add((line, Construct.NOT_UNDERSTOOD, what))
        for sink in self.sinks:
            sink.has_gap = True

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
