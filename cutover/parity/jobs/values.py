"""Abstract values of a job's names: what they may hold, as far as that is known without running the job."""

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MAX_ALTERNATIVES = 8  # of one value
MAX_UNROLLED_ITEMS = 12  # longer lists are represented by two unknown items

STATEFUL = frozenset({"aggregate", "dedup", "join", "state-function"})
"""Operations that are stateful in a stream."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Branch of a condition, a `match` or a `try`."""

    condition: Hashable  # equal for equal tests of the same values
    number: object
    line: int = field(compare=False)
    is_attempt: bool = field(default=False, compare=False)  # body of `try`, which may fail at any statement
    is_handler: bool = field(default=False, compare=False)  # body of `except`: the attempt before it failed
    existence: str = field(default="", compare=False)  # the call that tests whether a table or path exists


class JobValue:
    """Abstract value of an expression."""


@dataclass(frozen=True, eq=False)
class UnknownValue(JobValue):
    """Value of which only the source expression is known, if at all."""

    text: str = "?"
    taint: frozenset[str] = frozenset()  # `clock`, `random`, `rows` or an unknown `function` that it was computed from
    default: JobValue | None = None  # value unless something outside of the file sets another one
    is_template: bool = False  # a text with unknown parts in braces
    is_fixed: bool = False  # the same in each run, such as the minimum of a table that grows


@dataclass(frozen=True, eq=False)
class Constant(JobValue):
    """Literal."""

    value: object


@dataclass(frozen=True, eq=False)
class OneOf(JobValue):
    """Value that depends on the branch: one of several."""

    values: tuple[JobValue, ...]


@dataclass(frozen=True, eq=False)
class ImportedName(JobValue):
    """Name that another module defines, as a dotted path."""

    path: str


@dataclass(frozen=True, eq=False)
class Missing(Constant):
    """Item that a list or dict lacks, on all paths or as one of several alternatives."""


MISSING = Missing(None)


class ItemStore(dict[Any, JobValue]):
    """Items of a list by position, or of a dict by key; a removed item is `MISSING`."""


class Container(JobValue):
    """List or dict."""

    def __init__(self, items: Mapping[Any, JobValue], *, is_complete: bool) -> None:
        self.store = ItemStore(items)
        self.is_complete = is_complete

    @property
    def is_exact(self) -> bool:
        """Return whether each item is certain, and there are no others."""
        return self.is_complete and not any(is_optional(value) for value in self.store.values())

    def has_items(self) -> bool | None:
        """Return whether there are items; None if unknown."""
        if any(value is not MISSING and not is_optional(value) for value in self.store.values()):
            return True
        return False if self.is_exact else None


class ListValue(Container):
    """List, tuple or set."""

    def __init__(self, items: Iterable[JobValue] = (), *, is_complete: bool = True) -> None:
        super().__init__(dict(enumerate(items)), is_complete=is_complete)

    @property
    def items(self) -> list[JobValue]:
        """List the items, those included that exist on some paths only."""
        values = (self.store[position] for position in sorted(self.store))
        return [merge_alternatives(list_alternatives(value)) for value in values if value is not MISSING]


class DictValue(Container):
    """Dict with constant keys."""

    def __init__(self, items: Mapping[Any, JobValue], *, is_complete: bool = True) -> None:
        super().__init__(items, is_complete=is_complete)

    @property
    def items(self) -> dict[Any, JobValue]:
        """Return the items; the value of one that exists on some paths only has `MISSING` as an alternative."""
        return {key: value for key, value in self.store.items() if value is not MISSING}


@dataclass(frozen=True, eq=False)
class JobFunction(JobValue):
    """Function defined in the job."""

    node: "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
    scope: "Scope"
    owner: "Instance | None" = None
    is_undecorated: bool = False  # call it without its decorators

    @property
    def name(self) -> str:
        """Return the function's name, or `lambda`."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name


@dataclass(frozen=True, eq=False)
class JobClass(JobValue):
    """Class defined in the job."""

    node: ast.ClassDef
    scope: "Scope"


@dataclass(eq=False)
class Instance(JobValue):
    """Object of a class defined in the job."""

    job_class: JobClass
    attributes: dict[str, JobValue] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BoundFunction(JobValue):
    """Function with some arguments bound, as by `functools.partial`."""

    function: JobValue
    positional: tuple[JobValue, ...]
    keywords: Mapping[str, JobValue]


@dataclass(frozen=True, eq=False)
class Method(JobValue):
    """Attribute of a receiver; the effect of calling it depends on the receiver."""

    receiver: JobValue
    name: str
    line: int


@dataclass(frozen=True, eq=False)
class Session(JobValue):
    """Spark session."""


@dataclass(frozen=True, eq=False)
class LegacyValue(JobValue):
    """RDD, DStream, or the context that creates them."""

    kind: str  # `rdd`, `dstream`, `context` or `rows`


Comparison = tuple[frozenset[str], frozenset[str]]
"""Columns of the lesser and the greater side of an inequality; an equality yields two, one in each direction."""


@dataclass(frozen=True, eq=False)
class JobColumn(JobValue):
    """Column expression."""

    names: frozenset[str] = frozenset()  # columns that it reads
    alias: str | None = None
    is_plain: bool = False  # a column reference, possibly with an alias
    is_window: bool = False  # a time window over `names`
    comparisons: tuple[Comparison, ...] = ()  # that hold if the expression is a condition that holds
    varies: bool = False  # contains a value that is not a constant
    taint: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()  # names of the Spark functions in it


@dataclass(frozen=True, eq=False)
class Reader(JobValue):
    """`spark.readStream` or `spark.read` with its options."""

    is_stream: bool
    line: int
    options: Mapping[str, JobValue] = field(default_factory=dict)
    is_complete: bool = True  # False if options were set from an unknown value
    format: str | None = None


@dataclass(frozen=True, eq=False)
class Frame(JobValue):
    """DataFrame: an operation over other DataFrames."""

    op: str  # source, literal, unknown, opaque, batch (a micro-batch), step, watermark, filter, branch, or STATEFUL
    line: int
    subject: str = ""  # method, table, path or condition, as findings name it
    parents: tuple["Frame", ...] = ()
    is_stream: bool | None = None  # None: unknown
    keys: tuple[JobColumn, ...] | None = ()  # of a grouping or deduplication, or conditions; None: unknown
    columns: tuple[JobColumn, ...] = ()  # that a step adds or selects
    functions: frozenset[str] = frozenset()  # aggregate functions that it computes
    timer: str | None = None  # of a state function: `event`, `processing` or `none`; None: unknown
    source: Reader | None = None
    selects_new_rows: bool | None = False  # the next run selects other rows; None: a join with an unknown condition
    comparisons: tuple[Comparison, ...] = ()  # in a join's condition
    how: str = ""  # of a join: `inner`, `left`, `right`, `full`, `semi` or `anti`
    branches: frozenset[Branch] = frozenset()  # taken on the paths that lead to it and its parents


@dataclass(frozen=True, eq=False)
class GroupedFrame(JobValue):
    """`df.groupBy(...)`."""

    frame: Frame
    keys: tuple[JobColumn, ...] | None
    line: int


@dataclass(frozen=True, eq=False)
class Writer(JobValue):
    """`df.writeStream`, `df.write` or `df.writeTo(...)` with its settings."""

    frame: Frame
    is_stream: bool
    line: int
    options: Mapping[str, JobValue] = field(default_factory=dict)
    is_complete: bool = True
    format: str | None = None
    mode: str | None = None  # None: omitted; "?": unknown
    sink: object = None  # `ForeachBatchSink` of a stream with foreachBatch
    kind: str = ""  # `foreachBatch`, `foreach`, `writeTo`
    trigger: str = ""


@dataclass(eq=False)
class Scope:
    """Names of a module or a call, with the enclosing scope."""

    names: dict[str, JobValue] = field(default_factory=dict)
    outer: "Scope | None" = None
    declaring_scopes: "dict[str, Scope]" = field(
        default_factory=dict
    )  # scopes of names declared `global` or `nonlocal`

    def find(self, name: str) -> JobValue | None:
        """Find the value of a name; None if no scope defines it."""
        scope: Scope | None = self
        while scope is not None:
            scope = scope.declaring_scopes.get(name, scope)
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def find_enclosing(self, name: str) -> JobValue | None:
        """Find the value of a name in a function that encloses this scope; None if it is a name of the module."""
        scope = self
        while scope.outer is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


def list_alternatives(value: JobValue) -> tuple[JobValue, ...]:
    """List the values that a value may be; one unless a branch decides. A missing item is none of several."""
    values = expand_alternatives(value)
    return tuple(choice for choice in values if choice is not MISSING) or values


def expand_alternatives(value: JobValue) -> tuple[JobValue, ...]:
    """List the values that a value may be, including `MISSING`."""
    return value.values if isinstance(value, OneOf) else (value,)


def is_optional(value: JobValue) -> bool:
    """Return whether a value is present on some paths only."""
    return isinstance(value, OneOf) and MISSING in value.values


def override(previous: JobValue | None, value: JobValue) -> JobValue:
    """Return the value of an item after it is set to a value that may be missing."""
    if previous is None or MISSING not in expand_alternatives(value):
        return value
    present = (choice for choice in expand_alternatives(value) if choice is not MISSING)
    return merge_alternatives([*present, previous])


def merge_alternatives(values: Iterable[JobValue]) -> JobValue:
    """Merge the values of several branches into one, without duplicates and with at most `MAX_ALTERNATIVES`."""
    distinct: dict[object, JobValue] = {}
    for value in values:
        for alternative in expand_alternatives(value):
            distinct.setdefault(_get_identity(alternative), alternative)
    choices = tuple(distinct.values())
    if len(choices) > MAX_ALTERNATIVES:
        choices = tuple({_get_signature(value): value for value in reversed(choices)}.values())[::-1]
    if len(choices) > MAX_ALTERNATIVES:
        choices = (*choices[: MAX_ALTERNATIVES - 1], UnknownValue(f"one of {len(choices)} values"))
    if not choices:
        return Constant(None)
    return choices[0] if len(choices) == 1 else OneOf(choices)


def _get_signature(value: JobValue) -> object:
    """Return the part of a DataFrame's lineage that findings depend on: all but filters and plain steps."""
    if not isinstance(value, Frame):
        return _get_identity(value)
    plain = {"branch", "filter", "step"}
    return frozenset(
        (node.op, node.line, node.subject, node.is_stream)
        for node in list_ancestors(value)
        if node.op not in plain
        or node.selects_new_rows
        or any(column.alias or column.is_window for column in node.columns)
    )


def _get_identity(value: JobValue) -> object:
    if isinstance(value, Constant):
        return ("constant" if value is not MISSING else "missing", repr(value.value))
    return ("unknown", value.text) if isinstance(value, UnknownValue) else id(value)


def list_ancestors(frame: Frame) -> list[Frame]:
    """List a DataFrame and its ancestors, itself first, each once."""
    frames_by_id: dict[int, Frame] = {}
    pending = [frame]
    while pending:
        node = pending.pop()
        if id(node) not in frames_by_id:
            frames_by_id[id(node)] = node
            pending += reversed(node.parents)
    return list(frames_by_id.values())


def derive_frame(parents: tuple[Frame, ...], op: str, line: int, **fields: object) -> Frame:
    """Make a DataFrame over others; it streams if one of them does."""
    streams = [parent.is_stream for parent in parents]
    is_stream = True if True in streams else None if None in streams else False
    branches = frozenset[Branch]().union(*(parent.branches for parent in parents))
    return replace(Frame(op=op, line=line, parents=parents, is_stream=is_stream, branches=branches), **fields)  # type: ignore[arg-type]  # the caller passes fields of `Frame`


def get_text(value: JobValue) -> str | None:
    """Return the text of a string constant; None for any other value."""
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def list_option_texts(value: JobValue) -> tuple[list[str], bool]:
    """List the values that an option may have, defaults included, and report whether others are possible."""
    texts: list[str] = []
    is_open = False
    for alternative in expand_alternatives(value):
        if isinstance(alternative, UnknownValue) and alternative.default is not None:
            texts += list_option_texts(alternative.default)[0]
        if isinstance(alternative, Constant):
            texts.append(str(alternative.value).lower())
        else:
            is_open = True
    return texts, is_open


def get_taint(value: JobValue) -> frozenset[str]:
    """Return the non-repeatable sources that a value was computed from: `clock`, `random` or `rows`."""
    match value:
        case UnknownValue() | JobColumn():
            return value.taint
        case Method():
            return get_taint(value.receiver)
        case OneOf():
            return frozenset(taint for choice in value.values for taint in get_taint(choice))
        case _:
            return frozenset()


def describe_value(value: JobValue) -> str:
    """Return a text that only equal values share; `?` if there is none."""
    match value:
        case UnknownValue():
            return value.text
        case ImportedName():
            return value.path
        case Constant():
            return str(value.value)
        case Method() if isinstance(value.receiver, UnknownValue):
            return f"{value.receiver.text}.{value.name}"
        case _:
            return "?"


def walk_values(values: Iterable[JobValue]) -> Iterator[JobValue]:
    """Yield values and the values nested in lists, dicts and alternatives."""
    for value in values:
        yield value
        if isinstance(value, OneOf):
            yield from walk_values(value.values)
        elif isinstance(value, ListValue):
            yield from walk_values(value.items)
        elif isinstance(value, DictValue):
            yield from walk_values(value.items.values())


def find_method(job_class: JobClass, name: str, owner: Instance) -> JobFunction | None:
    """Find a method of a class or of its bases in the same file, bound to an object."""
    for node in job_class.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            is_static = any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)
            return JobFunction(node, job_class.scope, None if is_static else owner)
    for base in job_class.node.bases:
        base_class = job_class.scope.find(base.id) if isinstance(base, ast.Name) else None
        if isinstance(base_class, JobClass):
            return find_method(base_class, name, owner)
    return None


def list_items(value: JobValue, node: ast.AST) -> list[JobValue]:
    """List the items of a loop: those of a literal, otherwise two unknown ones."""
    if isinstance(value, ListValue) and value.is_complete and len(value.items) <= MAX_UNROLLED_ITEMS:
        return value.items
    if isinstance(value, DictValue) and value.is_complete and len(value.items) <= MAX_UNROLLED_ITEMS:
        return [Constant(key) for key in value.items]
    line = getattr(node, "lineno", 0)
    return [UnknownValue(f"{{item {number} of line {line}}}", get_taint(value)) for number in (1, 2)]
