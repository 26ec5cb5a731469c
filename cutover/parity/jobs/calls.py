"""Calls in a job: of its functions, of Spark's functions, and of other modules that take its DataFrames."""

import ast
from dataclasses import replace

from cutover.parity.jobs import methods
from cutover.parity.jobs.containers import filter_items, update_dict
from cutover.parity.jobs.frames import has_rows, list_frames, record_collected_rows, record_user_function
from cutover.parity.jobs.paths import decide_test
from cutover.parity.jobs.readers_and_writers import record_setting
from cutover.parity.jobs.sqltext import read_column
from cutover.parity.jobs.trace import Arguments, JobAnalysis, make_column, merge_columns
from cutover.parity.jobs.values import (
    MAX_UNROLLED_ITEMS,
    BoundFunction,
    Constant,
    DictValue,
    Frame,
    GroupedFrame,
    ImportedName,
    Instance,
    JobClass,
    JobColumn,
    JobFunction,
    JobValue,
    LegacyValue,
    ListValue,
    Method,
    Reader,
    Session,
    UnknownValue,
    Writer,
    derive_frame,
    describe_value,
    find_method,
    get_text,
    list_alternatives,
    list_items,
    merge_alternatives,
    walk_values,
)
from cutover.parity.rules import CLOCK, Construct, is_clock, is_pure, is_random, is_spark_function

FUNCTIONS = (
    *("pyspark.sql.functions.", "pyspark.sql.types.", "pyspark.sql.window.", "pyspark.sql.Window."),
    *("pyspark.sql.avro.functions.", "pyspark.sql.protobuf.functions."),
)
HARMLESS = frozenset(
    {"print", "len", "isinstance", "hasattr", "type", "str", "repr", "id", "bool", "display", "displayHTML", "dir"}
    | {"getattr", "super", "list", "tuple", "iter", "enumerate", "zip", "reversed", "sorted", "set", "dict"}
)
"""Functions that compute no rows from their arguments."""

CODE_RUNNERS = frozenset(
    {"exec", "eval", "compile", "importlib.import_module", "__import__", "runpy.run_path", "runpy.run_module"}
)
"""Functions that run code from outside the file."""

SESSION_LIBRARIES = ("delta.", "pyspark.", "{")
"""Prefixes of libraries that use a session only to read; `{` marks an unknown name, which is recorded elsewhere."""

PASSIVE_MODULES = ("logging.", "warnings.", "typing.", "dataclasses.", "pyspark.sql.DataFrame")


def call(job: JobAnalysis, target: JobValue, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    """Evaluate a call, and record its use of Spark."""
    match target:
        case JobFunction():
            return _call_job_function(job, target, arguments)
        case JobClass():
            return job.instantiate(target, arguments)
        case ImportedName():
            return _call_imported(job, target.path, arguments)
        case Method():
            return methods.call_method(job, target, arguments)
        case JobColumn() | Session():
            return target
        case BoundFunction() if not isinstance(target.function, JobFunction):
            positional = (*target.positional, *arguments.positional)
            keywords = {**target.keywords, **arguments.keywords}
            return call(job, target.function, replace(arguments, positional=positional, keywords=keywords))
        case UnknownValue(default=ImportedName() | JobFunction() as default):
            others = call_external(job, describe_value(target), arguments)
            return merge_alternatives([call(job, default, arguments), others])
        case BoundFunction() | Instance():
            return job.call_value(target, arguments) or UnknownValue("call")
        case _:
            result = call_external(job, describe_value(target), arguments)
            if isinstance(target, UnknownValue) and isinstance(result, UnknownValue):
                return replace(result, taint=result.taint | {"function"})
            return result


def find_member(owner: Instance, name: str) -> JobValue | None:
    """Find a method of an object, or the value that its class binds to the name."""
    return find_method(owner.job_class, name, owner) or owner.job_class.scope.names.get(name)


def read_property(job: JobAnalysis, member: JobFunction, node: ast.Attribute) -> JobValue:
    """Return the value of a property, or the method itself if it is not one."""
    decorators = () if isinstance(member.node, ast.Lambda) else member.node.decorator_list
    if not any(
        ast.unparse(decorator).rpartition(".")[2] in {"property", "cached_property"} for decorator in decorators
    ):
        return member
    call_node = ast.Call(func=node, args=[], keywords=[], lineno=node.lineno)
    return job.call_function(member, Arguments(node=call_node, positional=(), keywords={}))


def call_for_each_item(job: JobAnalysis, arguments: Arguments) -> JobValue:
    """Evaluate `map(function, items)`."""
    function, iterable = arguments.positional[:2]
    items = list_items(iterable, arguments.node)
    results: list[JobValue] = []
    for number, item in enumerate(items):
        job.trace.call_site.append(-1 - number)
        results.append(call(job, function, Arguments(node=arguments.node, positional=(item,), keywords={})))
        job.trace.call_site.pop()
    return ListValue(results, is_complete=isinstance(iterable, ListValue) and iterable.is_complete)


def _call_job_function(job: JobAnalysis, function: JobFunction, arguments: Arguments) -> JobValue:
    if not isinstance(function.node, ast.Lambda):
        decorator_names = {
            part.id if isinstance(part, ast.Name) else part.attr
            for decorator in function.node.decorator_list
            for part in ast.walk(decorator)
            if isinstance(part, ast.Name | ast.Attribute)
        }
        if decorator_names & {"udf", "pandas_udf"}:
            job.called_nodes.add(function.node)
            return merge_columns(map(make_column, arguments.values))
    return job.call_function(function, arguments)


def _call_imported(job: JobAnalysis, path: str, arguments: Arguments) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    name, module = path.rpartition(".")[2], path.rpartition(".")[0]
    if is_clock(path):
        return UnknownValue(f"{path}()", frozenset({"clock"}))
    if is_random(path):
        return UnknownValue(f"{path}()", frozenset({"random"}))
    if path.startswith("pyspark.streaming") or name == "StreamingContext" or "KafkaUtils" in path:
        job.trace.operation_count += 1
        job.trace.findings.add((arguments.node.lineno, Construct.DSTREAM, name))
        return LegacyValue("dstream")
    if name in {"getOrCreate", "getActiveSession", "active"} or path.endswith("sql.SparkSession"):
        return LegacyValue("context") if "SparkContext" in path else Session()
    if "SparkSession.builder" in path or "DatabricksSession.builder" in path:
        record_setting(job, arguments)
        return ImportedName(module)
    if name in {"SparkContext", "SparkConf"}:
        return LegacyValue("context") if name == "SparkContext" else UnknownValue("SparkConf")
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
    return call_external(job, path, arguments)


def _read_function_name(job: JobAnalysis, name: str, arguments: Arguments) -> str:
    """Return the function that `call_function` or `call_udf` calls; an unknown one is reported."""
    function = get_text(arguments.get(0, "funcName", "udfName") or UnknownValue())
    if function is None:
        job.trace.add_gap(arguments.node.lineno, f"{name}: which function is called")
        return name
    if not is_spark_function(function.lower()):
        job.trace.sql_functions.add((arguments.node.lineno, function.lower()))
    return function.lower()


def _make_function_column(job: JobAnalysis, name: str, path: str, arguments: Arguments) -> JobValue:  # noqa: C901, PLR0911 -- one return for each kind
    """Make the column that a Spark function returns."""
    module = path.removesuffix(name)
    argument = arguments.get(0, "col", "timeColumn")
    if name in {"call_function", "call_udf"}:
        name = _read_function_name(job, name, arguments)
    if module == FUNCTIONS[0]:
        job.trace.function_calls.setdefault(arguments.node, set()).add(name)
    if name in {"col", "column"} and argument is not None:
        return make_column(argument)
    if name == "expr" and argument is not None:
        return read_column(job.trace, argument, arguments.node.lineno)
    if name == "broadcast" and argument is not None:
        return argument
    if name in {"window", "session_window"} and argument is not None:
        return replace(make_column(argument), alias=None, is_window=True)
    if name == "window_time" and argument is not None:
        return replace(make_column(argument), alias=None)
    if name == "lit" and argument is not None:
        return JobColumn() if isinstance(argument, Constant) else make_column(argument)
    if name in {"udf", "pandas_udf"}:
        if not isinstance(argument, Constant | None):  # a type
            record_user_function(job, argument, name, arguments.node.lineno)
        return ImportedName("pyspark.sql.functions.user_defined")
    if ".types." in path:
        return UnknownValue(name)
    columns = [make_column(value) for value in walk_values(arguments.values) if not isinstance(value, ListValue)]
    merged = merge_columns(columns)
    return replace(merged, varies=name in CLOCK or merged.varies, functions=merged.functions | {name.lower()})


def _reduce(job: JobAnalysis, arguments: Arguments) -> JobValue:
    """Evaluate `functools.reduce`."""
    function, items = arguments.get(0), arguments.get(1)
    values = list_items(items, arguments.node) if items is not None else []
    initial = arguments.get(2)
    values = [initial, *values] if initial is not None else values
    if function is None or not values:
        return UnknownValue("reduce")
    result = values[0]
    for value in values[1:]:
        step = Arguments(node=arguments.node, positional=(result, value), keywords={})
        result = merge_alternatives(
            methods.call_unbound(job, alternative, step)
            if isinstance(alternative, ImportedName)
            else call(job, alternative, step)
            for alternative in list_alternatives(function)
        )
    return result


def _call_list_builtin(job: JobAnalysis, name: str, arguments: Arguments) -> JobValue | None:  # noqa: PLR0911 -- one return for each kind
    """Evaluate a built-in function over lists; None for other functions."""
    argument = arguments.get(0)
    if name == "iter" and isinstance(argument, ListValue | DictValue):
        return argument
    if name in {"list", "tuple", "sorted", "reversed", "set"} and isinstance(argument, ListValue | DictValue):
        keys: list[JobValue] = [Constant(key) for key in argument.items]
        items = keys if isinstance(argument, DictValue) else argument.items
        return ListValue(items[::-1] if name == "reversed" else items, is_complete=argument.is_complete)
    if name == "map" and len(arguments.positional) == 2:  # noqa: PLR2004 -- a function and one list
        return call_for_each_item(job, arguments)
    if name == "filter" and isinstance(sequence := arguments.get(1), ListValue):
        results = call_for_each_item(job, arguments)
        tests = [decide_test(result) for result in results.items] if isinstance(results, ListValue) else []
        is_exact = len(tests) == len(sequence.items)
        return filter_items(sequence, tests if is_exact else [None] * len(sequence.items))
    if name == "next" and isinstance(argument, ListValue) and argument.items:
        return merge_alternatives(argument.items)
    if name == "enumerate" and isinstance(argument, ListValue):
        return ListValue([ListValue([Constant(n), item]) for n, item in enumerate(argument.items)])
    if name == "zip" and all(isinstance(value, ListValue) for value in arguments.positional):
        lists = [value.items for value in arguments.positional if isinstance(value, ListValue)]
        return ListValue([ListValue(list(row)) for row in zip(*lists, strict=False)])
    return None


def _call_builtin(job: JobAnalysis, name: str, arguments: Arguments) -> JobValue:  # noqa: PLR0911 -- one return for each kind
    argument = arguments.get(0)
    list_result = _call_list_builtin(job, name, arguments)
    if list_result is not None:
        return list_result
    if name == "range" and 0 < len(arguments.positional) <= 3:  # noqa: PLR2004 -- start, stop, step
        return _list_numbers(arguments)
    if name == "dict":
        dictionary = DictValue({})
        update_dict(job.trace.assignment_log, dictionary, arguments)
        return dictionary
    if name == "super" and not arguments.positional and job.functions:
        return _find_super(job.functions[-1]) or UnknownValue("super()")
    if name in {"str", "staticmethod"} and argument is not None:
        return argument
    if name == "getattr" and argument is not None and has_rows(argument):
        job.trace.add_gap(arguments.node.lineno, "getattr: which method is called")
        return call_opaque(job, "getattr", arguments)
    return UnknownValue(f"{name}()") if name in HARMLESS else call_external(job, name, arguments)


def _find_super(function: JobFunction) -> JobValue | None:
    """Find the object that `super()` returns, if the base class is in the file."""
    owner = function.owner
    pending = [owner.job_class] if owner is not None else []
    while owner is not None and pending:
        job_class = pending.pop()
        bases = [job_class.scope.find(base.id) for base in job_class.node.bases if isinstance(base, ast.Name)]
        job_bases = [base for base in bases if isinstance(base, JobClass)]
        if function.node in job_class.node.body and job_bases:
            return Instance(job_bases[0], owner.attributes)
        pending += job_bases
    return None


def _list_numbers(arguments: Arguments) -> JobValue:
    """List the numbers of `range`, as far as loops are unrolled."""
    values = [value.value for value in arguments.positional if isinstance(value, Constant)]
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(arguments.positional) or 0 in numbers[2:]:
        return UnknownValue("range")
    return ListValue([Constant(number) for number in range(*numbers)[: MAX_UNROLLED_ITEMS + 1]])


def call_external(job: JobAnalysis, name: str, arguments: Arguments) -> JobValue:
    """Evaluate a call into another module; its effect on DataFrame arguments is unknown."""
    name = name.removeprefix("builtins.")
    target, values = arguments.get(-1, "target"), arguments.get(-1, "args")
    if isinstance(target, JobFunction) and name.endswith(("Thread", "Process")):
        items = values.items if isinstance(values, ListValue) else ()
        call(job, target, Arguments(node=arguments.node, positional=items, keywords={}))
        return UnknownValue(name)
    if any(isinstance(value, Session) for value in arguments.values) and not name.startswith(SESSION_LIBRARIES):
        job.trace.add_gap(arguments.node.lineno, f"{name}: its use of the session")
    name = name.strip("{}")
    if name.startswith(PASSIVE_MODULES) or name in HARMLESS:
        return UnknownValue(name)
    if name in {"shutil.rmtree", "os.remove", "os.unlink"} and arguments.positional:
        job.trace.add_removal(describe_value(arguments.positional[0]), arguments.node.lineno, name)
    if name in CODE_RUNNERS:
        job.trace.add_gap(arguments.node.lineno, f"{name}: the effect of the code that it runs")
    if any(isinstance(value, Frame | Reader | Writer | GroupedFrame) for value in walk_values(arguments.values)):
        job.trace.add_gap(arguments.node.lineno, f"{name}: its effect on a DataFrame")
        return call_opaque(job, name, arguments)
    job.trace.external_calls.add((arguments.node.lineno, name))
    if not is_pure(name):
        record_collected_rows(job, name, arguments, arguments.node.lineno)
    taint = frozenset(
        source for item in walk_values(arguments.values) if isinstance(item, UnknownValue) for source in item.taint
    )
    description = ", ".join(describe_value(value) for value in arguments.values)
    if any(isinstance(value, JobColumn) for value in walk_values(arguments.values)):
        if "{" not in name:
            job.trace.add_gap(arguments.node.lineno, f"{name}: the values that it computes from a column")
        return merge_columns(map(make_column, arguments.values))
    default = arguments.get(1, "default") if name in {"os.getenv", "os.environ.get"} else None
    return UnknownValue(f"{name}({description})", taint, default)


def record_undefined(job: JobAnalysis, name: str, arguments: Arguments) -> None:
    """Record a call of an undefined name, unless `call_external` records its DataFrame arguments."""
    takes_rows = any(
        isinstance(value, Frame | Reader | Writer | GroupedFrame) for value in walk_values(arguments.values)
    )
    if name not in HARMLESS and not takes_rows:
        job.trace.add_gap(arguments.node.lineno, f"{name}: a function that is not in the file")


def call_opaque(job: JobAnalysis, name: str, arguments: Arguments) -> JobValue:
    """Make a DataFrame that depends on others in an unknown way."""
    parents = tuple(list_frames(arguments.values))
    return job.trace.add_frame(derive_frame(parents, "opaque", arguments.node.lineno, subject=name))
