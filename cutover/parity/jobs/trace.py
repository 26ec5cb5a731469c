"""Facts recorded while a job is interpreted: its queries, findings, and code that could not be analyzed.

`Analysis` is the interface of the interpreter for the modules that evaluate single statements and calls. Statements
whose DataFrames are only shown or printed are listed first, so that no finding depends on them.

Of texts and column expressions that a job assembles, the unknown parts are in braces.
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from cutover.errors import DefinitionError
from cutover.parity import rules
from cutover.parity.jobs.paths import Activation, AssignmentLog, Loop
from cutover.parity.jobs.values import (
    Branch,
    Comparison,
    Constant,
    Frame,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    Method,
    OneOf,
    Scope,
    UnknownValue,
    Writer,
    describe_value,
    get_taint,
    get_text,
    list_alternatives,
)
from cutover.parity.rules import Construct

JOIN_TYPES: Mapping[str, str] = {"": "full", "cross": "inner", "leftsemi": "semi", "leftanti": "anti"}


def read_join_type(text: str) -> str:
    """Return the type of a join by one of Spark's names for it."""
    name = re.sub(r"[_ ]", "", text.lower()).removesuffix("outer")
    return JOIN_TYPES.get(name, name)


def make_column(value: JobValue) -> JobColumn:
    """Make the column of an argument: a string is a column name, another literal reads no column."""
    text = get_text(value)
    if text is not None:
        return JobColumn(names=frozenset({text.rpartition(".")[2]}), is_plain=True)
    if isinstance(value, JobColumn):
        return value
    if isinstance(value, OneOf):
        parts = merge_columns(map(make_column, list_alternatives(value)))
        return replace(parts, names=frozenset(), comparisons=(), varies=True)
    if isinstance(value, Method) and isinstance(value.receiver, Frame):
        return JobColumn(names=frozenset({value.name}), is_plain=True)
    description = describe_value(value) if isinstance(value, UnknownValue | Method) else "?"
    names = frozenset[str]() if "?" in description else frozenset({description})
    is_fixed = isinstance(value, Constant) or (isinstance(value, UnknownValue) and value.is_fixed)
    return JobColumn(names=names, is_plain=bool(names), varies=not is_fixed, taint=get_taint(value))


def merge_columns(columns: Iterable[JobColumn], comparisons: Iterable[Comparison] = ()) -> JobColumn:
    """Combine columns into one expression with the names, comparisons and taint of all."""
    parts = tuple(columns)
    return JobColumn(
        names=frozenset(name for part in parts for name in part.names),
        comparisons=(*comparisons, *(pair for part in parts for pair in part.comparisons)),
        varies=any(part.varies for part in parts),
        taint=frozenset(taint for part in parts for taint in part.taint),
        functions=frozenset(name for part in parts for name in part.functions),
    )


def get_sql_text(value: JobValue) -> str | None:
    """Return a SQL text, with its unknown parts marked as parameters; None for a value without a text."""
    if isinstance(value, UnknownValue) and value.is_template and "?" not in value.text:
        return mark_parameters(value.text)
    return get_text(value)


def join_texts(parts: list[JobValue]) -> JobValue:
    """Concatenate parts into a text with the taint of all."""
    if all(isinstance(part, Constant) for part in parts):
        return Constant("".join(str(part.value) for part in parts if isinstance(part, Constant)))
    taint = frozenset(source for part in parts for source in get_taint(part))
    return UnknownValue("".join(_mark_unknown(part) for part in parts), taint, is_template=True)


def _mark_unknown(part: JobValue) -> str:
    """Return the text of a part, in braces if it is unknown."""
    description = describe_value(part)
    is_text = isinstance(part, Constant) or (isinstance(part, UnknownValue) and part.is_template)
    is_marked = is_text or not description.strip() or description[0] + description[-1] == "{}"
    return description if is_marked else f"{{{description}}}"


def fill_template(pieces: list[str], values: list[JobValue]) -> JobValue:
    """Fill the gaps between a template's pieces with values."""
    parts: list[JobValue] = [Constant(pieces[0])]
    for index, piece in enumerate(pieces[1:]):
        parts += [values[index] if index < len(values) else UnknownValue(), Constant(piece)]
    return join_texts(parts)


def mark_parameters(text: str) -> str:
    """Replace each part in braces by an identifier that marks a parameter."""
    identifier_text, depth = "", 0
    for letter in text:
        if letter == "{":
            identifier_text += "__param_" if depth == 0 else "_"
            depth += 1
        elif letter == "}":
            depth -= 1
        else:
            identifier_text += letter if depth == 0 or letter.isalnum() else "_"
    return identifier_text


Finding = tuple[int, Construct, str]
"""Line, construct and subject of a finding."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JobStep:
    """Operation of a job on a table, a path or a topic."""

    target: str  # as `normalize_target` returns it; empty: unknown
    line: int
    position: int  # in the order of all steps
    root_line: int  # line of the entry function, which no function of the file calls; 0 for module level
    call_site: tuple[int, ...]  # lines and columns of the calls that lead to the step, with the iterations of loops
    branches: frozenset[Branch]  # taken to reach the step


@dataclass(frozen=True, eq=False, kw_only=True)
class Query(JobStep):
    """Stream that is started, or batch that is written."""

    writer: Writer
    has_checkpoint_root: bool = False  # the session sets a common checkpoint location
    is_partial: bool = False  # overwrites only some partitions or rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Removal(JobStep):
    """Removal of rows: TRUNCATE, DELETE, DROP, CREATE OR REPLACE, or the deletion of a folder."""

    subject: str  # statement or function, as findings name it
    condition: str | None = None  # of DELETE, as Spark SQL; None: all rows


@dataclass(eq=False)
class ForeachBatchSink:
    """Effects of a foreachBatch function on its micro-batch."""

    micro_batches: list[Frame] = field(default_factory=list)
    writes: list[Query] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    merge_sources: list[Frame] = field(default_factory=list)  # source rows of MERGE
    loop_depth: int = 0  # number of loops around the call of foreachBatch
    swallowing_lines: set[int] = field(
        default_factory=set
    )  # lines of `try` statements that continue after a failed write
    insert_lines: set[int] = field(default_factory=set)  # lines that insert collected rows through another client
    repeated_merges: set[tuple[int, str]] = field(default_factory=set)  # MERGE statements that are not idempotent
    has_merge: bool = False
    has_gap: bool = False

    @property
    def effect_count(self) -> int:
        """Return the number of writes of any kind."""
        return len(self.writes) + len(self.insert_lines) + len(self.merge_sources) + self.has_merge


@dataclass(eq=False)
class Trace:
    """Facts about one job, recorded while its statements are interpreted."""

    findings: set[Finding] = field(default_factory=set)
    queries: list[Query] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    views: dict[str, JobValue] = field(default_factory=dict)
    assignment_log: AssignmentLog = field(default_factory=AssignmentLog)
    call_site: list[int] = field(default_factory=list)  # lines and columns of the active calls; iterations are negative
    branches: list[Branch] = field(default_factory=list)  # taken to reach the current statement
    root_line: int = 0  # line of the entry function, which no function of the file calls; 0 for module level
    step_count: int = 0  # number of queries and removals so far
    current_database: str = ""  # set by USE or setCurrentDatabase
    has_dynamic_overwrite: bool = False  # spark.sql.sources.partitionOverwriteMode is set
    active_sinks: list[ForeachBatchSink] = field(default_factory=list)  # of the active foreachBatch functions
    sql_findings: set[Finding] = field(default_factory=set)  # findings in SQL texts
    sql_functions: set[tuple[int, str]] = field(
        default_factory=set
    )  # line and name of SQL functions that are not built in
    function_calls: dict[ast.Call, set[str]] = field(default_factory=dict)  # Spark functions that a call refers to
    user_functions: dict[ast.AST, str] = field(default_factory=dict)  # functions over rows, by their definition
    registered_functions: set[str] = field(default_factory=set)  # functions that the job registers for SQL
    external_calls: set[tuple[int, str]] = field(default_factory=set)  # line and name of calls into other modules
    argument_defaults: dict[str, JobValue] = field(default_factory=dict)  # defaults of command-line arguments by name
    display_statements: frozenset[ast.stmt] = frozenset()  # statements whose rows are only shown
    has_time_zone: bool = False  # the session's time zone is set
    has_checkpoint_root: bool = False  # spark.sql.streaming.checkpointLocation is set
    operation_count: int = 0  # number of Spark operations seen

    def drop_shown(self, earlier: set[Finding], earlier_sql: set[Finding]) -> None:
        """Drop the findings, new since earlier ones, of rows that are only shown."""
        self.findings -= {finding for finding in self.findings - earlier if finding[1] in HARMLESS_IF_SHOWN}
        self.sql_findings -= {finding for finding in self.sql_findings - earlier_sql if finding[1] in HARMLESS_IF_SHOWN}

    def add_gap(self, line: int, subject: str) -> None:
        """Record code that cannot be analyzed."""
        self.findings.add((line, Construct.NOT_UNDERSTOOD, subject))
        for sink in self.active_sinks:
            sink.has_gap = True

    def add_query(self, writer: Writer, line: int, target: str, *, column: int = 0, is_partial: bool = False) -> None:
        """Record the start of a stream or the write of a batch."""
        self.operation_count += 1
        self.step_count += 1
        query = Query(
            writer=writer,
            line=line,
            call_site=(*self.call_site, line, column),
            branches=frozenset(self.branches),
            target=self._qualify(target),
            position=self.step_count,
            root_line=self.root_line,
            has_checkpoint_root=self.has_checkpoint_root,
            is_partial=is_partial or self.has_dynamic_overwrite or "replaceWhere" in writer.options,
        )
        if self.active_sinks and not writer.is_stream:
            self.active_sinks[-1].writes.append(query)
        else:
            self.queries.append(query)

    def add_removal(self, target: str, line: int, subject: str, condition: str | None = None) -> None:
        """Record the removal of rows of a table or a path."""
        self.step_count += 1
        removal = Removal(
            line=line,
            call_site=(*self.call_site, line),
            branches=frozenset(self.branches),
            target=self._qualify(target),
            position=self.step_count,
            root_line=self.root_line,
            subject=subject,
            condition=condition,
        )
        (self.active_sinks[-1].removals if self.active_sinks else self.removals).append(removal)

    def _qualify(self, target: str) -> str:
        """Return the normalized name of a path, or of a table qualified with the current database."""
        name = normalize_target(target)
        return (
            f"{self.current_database}.{name}" if self.current_database and name and not set("./") & set(name) else name
        )

    def add_repeated_merge(self, line: int, subject: str) -> None:
        """Record a MERGE that changes its target again if it is repeated."""
        for sink in self.active_sinks:
            sink.repeated_merges.add((line, subject))
        if not self.active_sinks:
            self.add_gap(line, f"{subject}: whether the next run adds the same rows again")

    def check_sql(self, text: str | None, line: int, *, is_statement: bool = False) -> None:
        """Record the findings of a SQL text in the job."""
        if text is None:
            return
        statement = text if is_statement else f"SELECT {text}"
        try:
            findings = rules.check_sql(statement, "")
        except DefinitionError:
            return
        self.sql_findings |= {(line, finding.construct, finding.subject) for finding in findings}
        self.sql_functions |= {(line, name) for _, name in rules.list_unknown_functions(statement)}

    def add_frame(self, frame: Frame) -> Frame:
        """Record a DataFrame and return it."""
        self.operation_count += 1
        self.frames.append(frame)
        return frame


def normalize_target(name: str) -> str:
    """Return the common form of a table name or path in Python and SQL; empty for an unknown one."""
    text = re.sub(r"^(delta|parquet|iceberg|hudi)\.(?=[`/{])", "", mark_parameters(name)).replace("`", "")
    text = re.sub(r"^(dbfs:|file://)(?=/)", "", text).rstrip("/").lower()
    return "" if "?" in text or text == "query" else text


@dataclass(frozen=True, eq=False)
class Arguments:
    """Evaluated arguments of a call."""

    node: ast.Call
    positional: Sequence[JobValue]
    keywords: Mapping[str, JobValue]
    is_complete: bool = True  # False after `*` or `**` of an unknown value

    def get(self, position: int, *names: str) -> JobValue | None:
        """Return an argument by its position or one of its names; a negative position means by name only."""
        if 0 <= position < len(self.positional):
            return self.positional[position]
        return next((self.keywords[name] for name in names if name in self.keywords), None)

    @property
    def values(self) -> tuple[JobValue, ...]:
        """Return the positional arguments, then the keyword arguments."""
        return (*self.positional, *self.keywords.values())


class JobAnalysis(Protocol):
    """Analysis in progress: the facts recorded so far, and the operations that interpret functions and classes."""

    trace: Trace
    activations: list[Activation]  # of the active functions, the innermost last
    loops: list[Loop]
    functions: list[JobFunction]  # active functions, the innermost last
    called_nodes: set[ast.AST]
    yielded_values: list[list[JobValue]]  # values that generators yield, one list per active function
    has_star_import: bool

    def count_step(self, node: ast.AST) -> None:
        """Count a step, and stop the analysis at the limit."""

    def run_block(self, body: Iterable[ast.stmt], scope: Scope) -> bool:
        """Interpret statements; return whether the code after them is reachable."""

    def assign(self, scope: Scope, name: str, value: JobValue) -> None:
        """Bind a name in the scope that declares it."""

    def bind_target(self, target: ast.expr, value: JobValue, scope: Scope) -> None:
        """Bind the target of an assignment."""

    def call_function(self, function: JobFunction, arguments: Arguments) -> JobValue:
        """Interpret the body of a function with its arguments bound."""

    def call_value(self, target: JobValue, arguments: Arguments) -> JobValue | None:
        """Call a function, partial or object of the job; None for any other value."""

    def instantiate(self, job_class: JobClass, arguments: Arguments) -> Instance:
        """Make an object of a class by interpreting its `__init__`."""


DISPLAY_METHODS = frozenset({"show", "printSchema", "explain", "display"})
DISPLAY_FUNCTIONS = frozenset({"print", "display"})
LOGGING_METHODS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log"})
STORING_ATTRIBUTES = frozenset(
    {"write", "writeStream", "writeTo", "foreach", "foreachBatch", "foreachPartition", "transform", "pipe"}
    | {"createTempView", "createOrReplaceTempView", "createGlobalTempView", "createOrReplaceGlobalTempView"}
)
"""Attributes after which rows may be used elsewhere."""

CHANGING_STATEMENT = re.compile(r"\b(insert|create|merge|replace|update|delete)\b", re.IGNORECASE)

HARMLESS_IF_SHOWN = frozenset(
    {Construct.CLOCK, Construct.RANDOM, Construct.ORDER, Construct.TIES, Construct.LIMIT, Construct.FLOAT_SUM}
    | {Construct.TIME_ZONE}
)
"""Constructs that change only what a person sees if their rows are shown."""


def list_display_statements(tree: ast.Module) -> frozenset[ast.stmt]:
    """List the statements that show a value, and the assignments of names that only such statements read."""
    own_names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.Assign)]
    candidates = [node for node in statements if not _stores_rows(node, own_names)]
    displays: set[ast.stmt] = {node for node in candidates if isinstance(node, ast.Expr) and _is_display(node.value)}
    names_by_reader = _list_reads(tree, statements)
    for node in reversed(candidates):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            readers = names_by_reader.get(node.targets[0].id, [])
            if readers and all(reader in displays for reader in readers):
                displays.add(node)
    return frozenset(displays)


def _is_display(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in DISPLAY_FUNCTIONS
        case ast.Call(func=ast.Attribute(attr=name, value=owner)):
            return name in DISPLAY_METHODS or (name in LOGGING_METHODS and "log" in ast.unparse(owner).lower())
        case _:
            return False


def _stores_rows(statement: ast.stmt, own_names: set[str]) -> bool:
    """Return whether a statement may use its rows for more than its own value."""
    for node in ast.walk(statement):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in own_names or name in STORING_ATTRIBUTES:
                return True
            case ast.Constant(value=str(text)) if CHANGING_STATEMENT.search(text):
                return True
            case ast.NamedExpr():
                return True
            case ast.Call(func=ast.Attribute(attr="sql"), args=[argument, *_]) if not isinstance(
                argument, ast.Constant
            ):
                return True
    return False


def _list_reads(tree: ast.Module, statements: list[ast.Expr | ast.Assign]) -> dict[str, list[ast.stmt | None]]:
    """List the statements that read each name; None for a read outside of them."""
    owners = {part: statement for statement in statements for part in ast.walk(statement)}
    reads: dict[str, list[ast.stmt | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            reads.setdefault(node.id, []).append(owners.get(node))
    return reads
