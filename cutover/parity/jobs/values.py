"""Values that a job's names may hold, as far as they can be told without running it."""

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

MOST = 8  # alternatives of one value
UNROLLED = 12  # items of a list that a loop runs over

STATEFUL = frozenset({"aggregate", "dedup", "join", "state-function"})
"""Operations that keep state in a stream."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the ways through a condition, a `match` or a `try`."""

    condition: Hashable  # equal for the same test of the same values
    number: object
    line: int = field(compare=False)
    is_attempt: bool = field(default=False, compare=False)  # the body of `try`, which may fail at any statement
    is_handler: bool = field(default=False, compare=False)  # of `except`: the body before it failed
    existence: str = field(default="", compare=False)  # the call that tests whether a table or path exists


class JobValue:
    """Something that an expression yields."""


@dataclass(frozen=True, eq=False)
class UnknownValue(JobValue):
    """A value of which nothing is known but, perhaps, the expression that it came from."""

    text: str = "?"
    taint: frozenset[str] = frozenset()  # `clock`, `random`: it was computed from them
    default: JobValue | None = None  # what it is if nothing outside of the file says otherwise


@dataclass(frozen=True, eq=False)
class Constant(JobValue):
    """A literal."""

    value: object


@dataclass(frozen=True, eq=False)
class OneOf(JobValue):
    """One of several values, by the branch that was taken."""

    values: tuple[JobValue, ...]


@dataclass(frozen=True, eq=False)
class Imported(JobValue):
    """A name that another module defines, by its dotted path."""

    path: str


@dataclass(eq=False)
class Listing(JobValue):
    """A list or tuple."""

    items: list[JobValue]
    is_complete: bool = True


@dataclass(eq=False)
class Table(JobValue):
    """A dict with constant keys."""

    items: dict[object, JobValue]
    is_complete: bool = True


@dataclass(frozen=True, eq=False)
class JobFunction(JobValue):
    """A function of the job."""

    node: "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
    scope: "Scope"
    owner: "Instance | None" = None
    is_bare: bool = False  # without what its decorators make of it

    @property
    def name(self) -> str:
        """Return the name in its definition; `lambda` without one."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name


@dataclass(frozen=True, eq=False)
class JobClass(JobValue):
    """A class of the job."""

    node: ast.ClassDef
    scope: "Scope"


@dataclass(eq=False)
class Instance(JobValue):
    """An object of a class of the job."""

    of: JobClass
    attributes: dict[str, JobValue] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BoundFunction(JobValue):
    """A function with some of its arguments."""

    function: JobValue
    positional: tuple[JobValue, ...]
    keywords: Mapping[str, JobValue]


@dataclass(frozen=True, eq=False)
class Method(JobValue):
    """An attribute of a value that is not a class of the job: what a call on it means depends on the value."""

    receiver: JobValue
    name: str
    line: int


@dataclass(frozen=True, eq=False)
class Session(JobValue):
    """The Spark session."""


@dataclass(frozen=True, eq=False)
class Legacy(JobValue):
    """An RDD, a DStream, or the context that makes them."""

    kind: str  # `rdd`, `dstream`


Comparison = tuple[frozenset[str], frozenset[str]]
"""Columns of the side of an inequality that is at most the other one; of an equality there are two, one each way."""


@dataclass(frozen=True, eq=False)
class JobColumn(JobValue):
    """A column expression."""

    names: frozenset[str] = frozenset()  # columns in it
    alias: str | None = None
    is_plain: bool = False  # a column by its name, perhaps renamed
    is_window: bool = False  # a window of time over `names`
    comparisons: tuple[Comparison, ...] = ()  # that must hold where it is a condition
    varies: bool = False  # a value is in it that is not a constant
    taint: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()  # Spark's functions in it


@dataclass(frozen=True, eq=False)
class Reader(JobValue):
    """`spark.readStream` or `spark.read` with what was set on it."""

    is_stream: bool
    line: int
    options: Mapping[str, JobValue] = field(default_factory=dict)
    is_complete: bool = True  # no option came from something that is not known
    format: str | None = None


@dataclass(frozen=True, eq=False)
class Frame(JobValue):
    """A DataFrame: an operation over other DataFrames."""

    op: str  # source, unknown, opaque, batch (a micro-batch), step, watermark, filter, arm, or one of STATEFUL
    line: int
    what: str = ""
    parents: tuple["Frame", ...] = ()
    is_stream: bool | None = None  # None: not known
    keys: tuple[JobColumn, ...] | None = ()  # of a grouping or deduplication; None: not known
    columns: tuple[JobColumn, ...] = ()  # named by a step
    functions: frozenset[str] = frozenset()  # that an aggregation computes
    timer: str | None = None  # of a state function: `event`, `processing`, `none`, None: not known
    source: Reader | None = None
    is_bounded: bool | None = False  # other rows in the next run; None: a join whose condition is not known
    comparisons: tuple[Comparison, ...] = ()  # in the condition of a join
    arms: frozenset[Arm] = frozenset()  # by which it came, and what it is made of, where several ways met


@dataclass(frozen=True, eq=False)
class Grouped(JobValue):
    """`df.groupBy(...)`."""

    frame: Frame
    keys: tuple[JobColumn, ...] | None
    line: int


@dataclass(frozen=True, eq=False)
class Writer(JobValue):
    """`df.writeStream`, `df.write` or `df.writeTo(...)` with what was set on it."""

    frame: Frame
    is_stream: bool
    line: int
    options: Mapping[str, JobValue] = field(default_factory=dict)
    is_complete: bool = True
    format: str | None = None
    mode: str | None = None  # None: omitted; "?" not known
    sink: object = None  # what the function of foreachBatch does
    kind: str = ""  # `foreachBatch`, `foreach`, `writeTo`
    trigger: str = ""


@dataclass(eq=False)
class Scope:
    """Names of a module or a call, and the scope around it."""

    names: dict[str, JobValue] = field(default_factory=dict)
    outer: "Scope | None" = None
    shared: "dict[str, Scope]" = field(default_factory=dict)  # where names are that `global` and `nonlocal` declare

    def find(self, name: str) -> JobValue | None:
        """Return the value of a name; None if no scope has it."""
        scope: Scope | None = self
        while scope is not None:
            scope = scope.shared.get(name, scope)
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


def alternatives(value: JobValue) -> tuple[JobValue, ...]:
    """Return each value by itself where a branch decides between several."""
    return value.values if isinstance(value, OneOf) else (value,)


def choose(values: Iterable[JobValue]) -> JobValue:
    """Return one value for several branches, without repetition and at most `MOST`."""
    distinct: dict[object, JobValue] = {}
    for value in values:
        for alternative in alternatives(value):
            distinct.setdefault(_identity(alternative), alternative)
    retained = tuple(distinct.values())
    if len(retained) > MOST:
        retained = tuple({_sign(value): value for value in reversed(retained)}.values())[::-1]
    if len(retained) > MOST:
        retained = (*retained[: MOST - 1], UnknownValue(f"one of {len(retained)} values"))
    if not retained:
        return Constant(None)
    return retained[0] if len(retained) == 1 else OneOf(retained)


def _sign(value: JobValue) -> object:
    """Return what DataFrames that are judged alike share: everything in their lineage but filters and plain steps."""
    if not isinstance(value, Frame):
        return _identity(value)
    plain = {"arm", "filter", "step"}
    return frozenset(
        (node.op, node.line, node.what, node.is_stream)
        for node in list_ancestors(value)
        if node.op not in plain or node.is_bounded or any(column.alias or column.is_window for column in node.columns)
    )


def _identity(value: JobValue) -> object:
    if isinstance(value, Constant):
        return ("constant", repr(value.value))
    return ("unknown", value.text) if isinstance(value, UnknownValue) else id(value)


def list_ancestors(frame: Frame) -> list[Frame]:
    """Return a DataFrame and all that it is made of, itself first, each once."""
    found: dict[int, Frame] = {}
    pending = [frame]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending += reversed(node.parents)
    return list(found.values())


def derive(parents: tuple[Frame, ...], op: str, line: int, **facts: object) -> Frame:
    """Return a DataFrame over others; it streams if one of them does."""
    streams = [parent.is_stream for parent in parents]
    is_stream = True if True in streams else None if None in streams else False
    arms = frozenset[Arm]().union(*(parent.arms for parent in parents))
    return replace(Frame(op=op, line=line, parents=parents, is_stream=is_stream, arms=arms), **facts)  # type: ignore[arg-type]  # facts are fields


def get_text(value: JobValue) -> str | None:
    """Return a constant text; None for anything else."""
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def list_settings(value: JobValue) -> tuple[list[str], bool]:
    """Return the texts that an option may have, a default among them, and whether another one is possible."""
    texts: list[str] = []
    is_open = False
    for alternative in alternatives(value):
        if isinstance(alternative, UnknownValue) and alternative.default is not None:
            texts += list_settings(alternative.default)[0]
        if isinstance(alternative, Constant):
            texts.append(str(alternative.value).lower())
        else:
            is_open = True
    return texts, is_open


def get_taint(value: JobValue) -> frozenset[str]:
    """Return what a value was computed from that differs in every run: the clock, chance."""
    match value:
        case UnknownValue() | JobColumn():
            return value.taint
        case Method():
            return get_taint(value.receiver)
        case OneOf():
            return frozenset(mark for each in value.values for mark in get_taint(each))
        case _:
            return frozenset()


def describe(value: JobValue) -> str:
    """Return a text that two values share only if they are equal; `?` where there is none."""
    match value:
        case UnknownValue():
            return value.text
        case Imported():
            return value.path
        case Constant():
            return str(value.value)
        case Method() if isinstance(value.receiver, UnknownValue):
            return f"{value.receiver.text}.{value.name}"
        case _:
            return "?"


def walk(values: Iterable[JobValue]) -> Iterator[JobValue]:
    """Yield values with those in lists, tables and choices."""
    for value in values:
        yield value
        if isinstance(value, OneOf):
            yield from walk(value.values)
        elif isinstance(value, Listing):
            yield from walk(value.items)
        elif isinstance(value, Table):
            yield from walk(value.items.values())


def make_column(value: JobValue) -> JobColumn:
    """Return the column that an argument names: a text is a name, a literal has none."""
    text = get_text(value)
    if text is not None:
        return JobColumn(names=frozenset({text.rpartition(".")[2]}), is_plain=True)
    if isinstance(value, JobColumn):
        return value
    if isinstance(value, Method) and isinstance(value.receiver, Frame):
        return JobColumn(names=frozenset({value.name}), is_plain=True)
    description = describe(value) if isinstance(value, UnknownValue | Method) else "?"
    names = frozenset[str]() if "?" in description else frozenset({description})
    return JobColumn(names=names, is_plain=bool(names), varies=not isinstance(value, Constant), taint=get_taint(value))


def merge_columns(columns: Iterable[JobColumn], comparisons: Iterable[Comparison] = ()) -> JobColumn:
    """Return an expression over columns, with what any of them has: names, comparisons, taint."""
    parts = tuple(columns)
    return JobColumn(
        names=frozenset(name for part in parts for name in part.names),
        comparisons=(*comparisons, *(pair for part in parts for pair in part.comparisons)),
        varies=any(part.varies for part in parts),
        taint=frozenset(taint for part in parts for taint in part.taint),
        functions=frozenset(name for part in parts for name in part.functions),
    )


def find_method(of: JobClass, name: str, owner: Instance) -> JobFunction | None:
    """Return a method of a class or of its bases in the same file, bound to an object."""
    for node in of.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            static = any(ast.unparse(mark) == "staticmethod" for mark in node.decorator_list)
            return JobFunction(node, of.scope, None if static else owner)
    for base in of.node.bases:
        found = of.scope.find(base.id) if isinstance(base, ast.Name) else None
        if isinstance(found, JobClass):
            return find_method(found, name, owner)
    return None


def list_items(value: JobValue, node: ast.AST) -> list[JobValue]:
    """Return the items that a loop runs over: those of a literal, else two that stand for any."""
    if isinstance(value, Listing) and value.is_complete and len(value.items) <= UNROLLED:
        return value.items
    if isinstance(value, Table) and value.is_complete and len(value.items) <= UNROLLED:
        return [Constant(key) for key in value.items]
    line = getattr(node, "lineno", 0)
    return [UnknownValue(f"{{item {number} of line {line}}}", get_taint(value)) for number in (1, 2)]


def join_texts(parts: list[JobValue]) -> JobValue:
    """Return a text of several parts, with what any of them was computed from."""
    if all(isinstance(part, Constant) for part in parts):
        return Constant("".join(str(part.value) for part in parts if isinstance(part, Constant)))
    taint = frozenset(mark for part in parts for mark in get_taint(part))
    return UnknownValue("".join(_mark_unknown(part) for part in parts), taint)


def _mark_unknown(part: JobValue) -> str:
    """Return the text of a part; one that is not known stands in braces."""
    description = describe(part)
    is_marked = isinstance(part, Constant) or not description.strip() or "{" in description
    return description if is_marked else f"{{{description}}}"


def fill_text(pieces: list[str], values: list[JobValue]) -> JobValue:
    """Put values between the pieces of a template."""
    parts: list[JobValue] = [Constant(pieces[0])]
    for place, piece in enumerate(pieces[1:]):
        parts += [values[place] if place < len(values) else UnknownValue(), Constant(piece)]
    return join_texts(parts)


def mark_parameters(text: str) -> str:
    """Return a text in which each part in braces is a name that marks a parameter."""
    message, depth = "", 0
    for letter in text:
        if letter == "{":
            message += "__param_" if depth == 0 else "_"
            depth += 1
        elif letter == "}":
            depth -= 1
        else:
            message += letter if depth == 0 or letter.isalnum() else "_"
    return message
