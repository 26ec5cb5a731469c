"""Calls of a job: its own functions, Spark's functions, and what other modules do with its DataFrames."""

import ast
from dataclasses import replace

from cutover.parity.jobs import methods
from cutover.parity.jobs.frames import has_rows, list_frames, note_collected_rows, note_user_function
from cutover.parity.jobs.sources import note_setting
from cutover.parity.jobs.sqltext import parse_column
from cutover.parity.jobs.trace import Arguments
from cutover.parity.jobs.values import (
    UNROLLED,
    BoundFunction,
    Constant,
    Frame,
    Grouped,
    Imported,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    Legacy,
    Listing,
    Method,
    Reader,
    Session,
    Table,
    UnknownValue,
    Writer,
    alternatives,
    choose,
    derive,
    describe,
    find_method,
    get_text,
    list_items,
    make_column,
    merge_columns,
    walk,
)
from cutover.parity.jobs.walk import Walk
from cutover.parity.purity import is_chance, is_clock, is_pure
from cutover.parity.rules import Construct
from cutover.parity.sql import CLOCK

FUNCTIONS = (
    *("pyspark.sql.functions.", "pyspark.sql.types.", "pyspark.sql.window.", "pyspark.sql.Window."),
    *("pyspark.sql.avro.functions.", "pyspark.sql.protobuf.functions."),
)
HARMLESS = frozenset(
    {"print", "len", "isinstance", "hasattr", "type", "str", "repr", "id", "bool", "display", "displayHTML", "dir"}
    | {"getattr", "super", "list", "tuple", "iter", "enumerate", "zip", "reversed", "sorted", "set", "dict"}
)
"""Functions that compute no rows of what they are given."""

RUNNERS = frozenset(
    {"exec", "eval", "compile", "importlib.import_module", "__import__", "runpy.run_path", "runpy.run_module"}
)
"""Functions that run code from elsewhere."""

OWN = ("delta.", "pyspark.", "{")
"""Libraries whose functions take a session to read with it; what has no name here was named as such."""

WATCHERS = ("logging.", "warnings.", "typing.", "dataclasses.", "pyspark.sql.DataFrame")


def call(job: Walk, target: JobValue, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Return what a call yields, and note what it does with Spark."""
    match target:
        case JobFunction():
            return _call_own(job, target, arguments)
        case JobClass():
            return job.instantiate(target, arguments)
        case Imported():
            return _call_imported(job, target.path, arguments)
        case Method():
            return methods.call_method(job, target, arguments)
        case JobColumn() | Session():
            return target
        case BoundFunction() | Instance():
            return job.call_value(target, arguments) or UnknownValue("call")
        case _:
            return call_outside(job, describe(target), arguments)


def find_member(owner: Instance, name: str) -> JobValue | None:
    """Return a method of an object, or what its class binds to the name."""
    return find_method(owner.of, name, owner) or owner.of.scope.names.get(name)


def read_property(job: Walk, member: JobFunction, node: ast.Attribute) -> JobValue:
    """Return the value of a property, or the method itself."""
    marks = () if isinstance(member.node, ast.Lambda) else member.node.decorator_list
    if not any(ast.unparse(mark).rpartition(".")[2] in {"property", "cached_property"} for mark in marks):
        return member
    call_node = ast.Call(func=node, args=[], keywords=[], lineno=node.lineno)
    return job.call_function(member, Arguments(node=call_node, positional=(), keywords={}))


def call_for_each(job: Walk, arguments: Arguments) -> JobValue:
    """Return what `map(function, items)` yields, of this process or of a pool."""
    function, many = arguments.positional[:2]
    items = list_items(many, arguments.node)
    results: list[JobValue] = []
    for number, item in enumerate(items):
        job.trace.site.append(-1 - number)
        results.append(call(job, function, Arguments(node=arguments.node, positional=(item,), keywords={})))
        job.trace.site.pop()
    return Listing(results, is_complete=isinstance(many, Listing) and many.is_complete)


def _call_own(job: Walk, function: JobFunction, arguments: Arguments) -> JobValue:
    if not isinstance(function.node, ast.Lambda):
        marks = {
            part.id if isinstance(part, ast.Name) else part.attr
            for mark in function.node.decorator_list
            for part in ast.walk(mark)
            if isinstance(part, ast.Name | ast.Attribute)
        }
        if marks & {"udf", "pandas_udf"}:
            job.called.add(function.node)
            return merge_columns(map(make_column, arguments.values))
    return job.call_function(function, arguments)


def _call_imported(job: Walk, path: str, arguments: Arguments) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    name, module = path.rpartition(".")[2], path.rpartition(".")[0]
    if is_clock(path):
        return UnknownValue(f"{path}()", frozenset({"clock"}))
    if is_chance(path):
        return UnknownValue(f"{path}()", frozenset({"random"}))
    if path.startswith("pyspark.streaming") or name == "StreamingContext" or "KafkaUtils" in path:
        job.trace.steps += 1
        job.trace.found.add((arguments.node.lineno, Construct.DSTREAM, name))
        return Legacy("dstream")
    if name in {"getOrCreate", "getActiveSession", "active"} or path.endswith("sql.SparkSession"):
        return Legacy("context") if "SparkContext" in path else Session()
    if "SparkSession.builder" in path or "DatabricksSession.builder" in path:
        note_setting(job, arguments)
        return Imported(module)
    if name in {"SparkContext", "SparkConf"}:
        return Legacy("context") if name == "SparkContext" else UnknownValue("SparkConf")
    if name in {"SQLContext", "HiveContext", "SparkSession"}:
        return Session()
    if path.startswith(FUNCTIONS):
        return _make_function_column(job, name, path, arguments)
    if path == "functools.partial" and arguments.positional:
        return BoundFunction(arguments.positional[0], tuple(arguments.positional[1:]), dict(arguments.keywords))
    if path == "functools.reduce":
        return _reduce(job, arguments)
    if module == "builtins":
        return _call_builtin(job, name, arguments)
    return call_outside(job, path, arguments)


def _make_function_column(job: Walk, name: str, path: str, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Return the column that a function of Spark's makes."""
    argument = arguments.get(0, "col", "timeColumn")
    if name in {"col", "column"} and argument is not None:
        return make_column(argument)
    if name == "expr" and argument is not None:
        text = get_text(argument)
        job.trace.check_sql(text, arguments.node.lineno)
        return parse_column(text) if text is not None else JobColumn(varies=True)
    if name == "broadcast" and argument is not None:
        return argument
    if name in {"window", "session_window"} and argument is not None:
        return replace(make_column(argument), alias=None, is_window=True)
    if name == "window_time" and argument is not None:
        return replace(make_column(argument), alias=None)
    if name == "lit" and argument is not None:
        return JobColumn() if isinstance(argument, Constant) else make_column(argument)
    if name in {"udf", "pandas_udf"} and isinstance(argument, JobFunction | Imported | UnknownValue):
        note_user_function(job, argument, name, arguments.node.lineno)
    if name in {"udf", "pandas_udf"}:
        return Imported("pyspark.sql.functions.call_udf")
    if ".types." in path:
        return UnknownValue(name)
    columns = [make_column(value) for value in walk(arguments.values) if not isinstance(value, Listing)]
    merged = merge_columns(columns)
    return replace(merged, varies=name in CLOCK or merged.varies, functions=merged.functions | {name.lower()})


def _reduce(job: Walk, arguments: Arguments) -> JobValue:
    """Return what `functools.reduce` makes of a list."""
    function, items = arguments.get(0), arguments.get(1)
    values = list_items(items, arguments.node) if items is not None else []
    argument = arguments.get(2)
    values = [argument, *values] if argument is not None else values
    if function is None or not values:
        return UnknownValue("reduce")
    result = values[0]
    for value in values[1:]:
        step = Arguments(node=arguments.node, positional=(result, value), keywords={})
        result = choose(
            methods.call_unbound(job, alternative, step)
            if isinstance(alternative, Imported)
            else call(job, alternative, step)
            for alternative in alternatives(function)
        )
    return result


def _call_on_lists(job: Walk, name: str, arguments: Arguments) -> JobValue | None:  # noqa: PLR0911 -- one return for each kind
    """Return what a function of Python's over lists yields; None for other functions."""
    argument = arguments.get(0)
    if name in {"list", "tuple", "sorted", "reversed", "set", "iter"} and isinstance(argument, Listing | Table):
        return argument
    if name == "map" and len(arguments.positional) == 2:  # noqa: PLR2004 -- a function and one list
        return call_for_each(job, arguments)
    if name == "filter" and isinstance(arguments.get(1), Listing):
        return arguments.positional[1]
    if name == "next" and isinstance(argument, Listing) and argument.items:
        return choose(argument.items)
    if name == "enumerate" and isinstance(argument, Listing):
        return Listing([Listing([Constant(n), item]) for n, item in enumerate(argument.items)])
    if name == "zip" and all(isinstance(value, Listing) for value in arguments.positional):
        lists = [value.items for value in arguments.positional if isinstance(value, Listing)]
        return Listing([Listing(list(row)) for row in zip(*lists, strict=False)])
    return None


def _call_builtin(job: Walk, name: str, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    argument = arguments.get(0)
    job_value = _call_on_lists(job, name, arguments)
    if job_value is not None:
        return job_value
    if name == "range" and 0 < len(arguments.positional) <= 3:  # noqa: PLR2004 -- start, stop, step
        return _list_numbers(arguments)
    if name == "dict":
        is_complete = arguments.is_complete and (
            argument is None or (isinstance(argument, Table) and argument.is_complete)
        )
        table = Table(dict(argument.items) if isinstance(argument, Table) else {}, is_complete=is_complete)
        table.items.update(arguments.keywords)
        return table
    if name == "super" and not arguments.positional and job.functions:
        return _find_super(job.functions[-1]) or UnknownValue("super()")
    if name == "str" and argument is not None:
        return argument
    if name == "getattr" and argument is not None and has_rows(argument):
        job.trace.add_gap(arguments.node.lineno, "getattr: which method is called")
        return call_opaque(job, "getattr", arguments)
    return UnknownValue(f"{name}()") if name in HARMLESS else call_outside(job, name, arguments)


def _find_super(function: JobFunction) -> JobValue | None:
    """Return the object of a method as an instance of the base class, if that class is in the file."""
    owner = function.owner
    pending = [owner.of] if owner is not None else []
    while owner is not None and pending:
        of = pending.pop()
        bases = [of.scope.find(base.id) for base in of.node.bases if isinstance(base, ast.Name)]
        job_bases = [base for base in bases if isinstance(base, JobClass)]
        if function.node in of.node.body and job_bases:
            return Instance(job_bases[0], owner.attributes)
        pending += job_bases
    return None


def _list_numbers(arguments: Arguments) -> JobValue:
    """Return what `range` yields, as far as loops are followed."""
    values = [value.value for value in arguments.positional if isinstance(value, Constant)]
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(arguments.positional) or 0 in numbers[2:]:
        return UnknownValue("range")
    return Listing([Constant(number) for number in range(*numbers)[: UNROLLED + 1]])


def call_outside(job: Walk, name: str, arguments: Arguments) -> JobValue:
    """Return what a function of another module yields; DataFrames that it takes cannot be followed through it."""
    name = name.removeprefix("builtins.")
    target, values = arguments.get(-1, "target"), arguments.get(-1, "args")
    if isinstance(target, JobFunction) and name.endswith(("Thread", "Process")):
        items = values.items if isinstance(values, Listing) else ()
        call(job, target, Arguments(node=arguments.node, positional=items, keywords={}))
        return UnknownValue(name)
    if any(isinstance(value, Session) for value in arguments.values) and not name.startswith(OWN):
        job.trace.add_gap(arguments.node.lineno, f"{name}: what it does with the session")
    name = name.strip("{}")
    if name.startswith(WATCHERS) or name in HARMLESS:
        return UnknownValue(name)
    if name in {"shutil.rmtree", "os.remove", "os.unlink"} and arguments.positional:
        job.trace.add_removal(describe(arguments.positional[0]), arguments.node.lineno, name)
    if name in RUNNERS:
        job.trace.add_gap(arguments.node.lineno, f"{name}: what the code does that it runs")
    if any(isinstance(value, Frame | Reader | Writer | Grouped) for value in walk(arguments.values)):
        job.trace.add_gap(arguments.node.lineno, f"{name}: what it does to a DataFrame")
        return call_opaque(job, name, arguments)
    job.trace.outside.add((arguments.node.lineno, name))
    if not is_pure(name):
        note_collected_rows(job, name, arguments, arguments.node.lineno)
    taint = frozenset(mark for item in walk(arguments.values) if isinstance(item, UnknownValue) for mark in item.taint)
    description = ", ".join(describe(value) for value in arguments.values)
    if any(isinstance(value, JobColumn) for value in walk(arguments.values)):
        if "{" not in name:
            job.trace.add_gap(arguments.node.lineno, f"{name}: what it computes from a column")
        return merge_columns(map(make_column, arguments.values))
    default = arguments.get(1, "default") if name in {"os.getenv", "os.environ.get"} else None
    return UnknownValue(f"{name}({description})", taint, default)


def note_undefined(job: Walk, name: str, arguments: Arguments) -> None:
    """Note a call of what nothing in the file defines; what it does to a DataFrame that it takes is noted with that."""
    takes_rows = any(isinstance(value, Frame | Reader | Writer | Grouped) for value in walk(arguments.values))
    if name not in HARMLESS and not takes_rows:
        job.trace.add_gap(arguments.node.lineno, f"{name}: a function that is not in the file")


def call_opaque(job: Walk, name: str, arguments: Arguments) -> JobValue:
    """Return a DataFrame that something made of others in a way that is not known."""
    parents = tuple(list_frames(arguments.values))
    return job.trace.keep(derive(parents, "opaque", arguments.node.lineno, what=name))
