"""Constructs on which a stream and a batch differ, each with the reason and the alternative.

Functions of Python by dotted name are pure, or depend on the clock, on chance or on another system.

Spark SQL is checked by its syntax tree.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import sqlglot
from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.errors import DefinitionError


class Construct(StrEnum):
    """Short name of a construct."""

    CLOCK = "clock"
    RANDOM = "random"
    ORDER = "order"
    TIES = "ties"
    LIMIT = "limit"
    FLOAT_SUM = "float-sum"
    TIME_ZONE = "time-zone"
    UDF = "udf"
    WATERMARK = "watermark"
    IDLE_WATERMARK = "watermark-without-effect"
    DEDUP = "dedup-within-watermark"
    CHAINED = "chained-state"
    UNBOUNDED = "unbounded-state"
    OUTPUT_MODE = "output-mode"
    NOT_IDEMPOTENT = "not-idempotent"
    MICRO_BATCH = "micro-batch-totals"
    CHECKPOINT = "checkpoint"
    OFFSETS = "offsets"
    DATA_LOSS = "data-loss"
    APPENDED_AGAIN = "appended-again"
    TIMER = "processing-time-timer"
    DSTREAM = "dstream"
    NOT_UNDERSTOOD = "not-understood"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRule:
    """Reason why two runs of the same code differ, and the construct to use instead."""

    reason: str
    alternative: str


RULES: Mapping[Construct, ParityRule] = {
    Construct.CLOCK: ParityRule(
        reason="it reads the clock, and stream and batch run at different times",
        alternative="the record's event time or its log timestamp",
    ),
    Construct.RANDOM: ParityRule(
        reason="it returns a different value in each run, task or file",
        alternative="a hash of columns of the record, or partition and offset",
    ),
    Construct.ORDER: ParityRule(
        reason="its result depends on the order of rows, which no engine guarantees",
        alternative="sort_array around a list, or min, max, min_by over a column that has no ties",
    ),
    Construct.TIES: ParityRule(
        reason="rows that are equal in the ORDER BY are numbered in the order in which they arrive",
        alternative="an ORDER BY that ends with partition and offset, or another unique column",
    ),
    Construct.LIMIT: ParityRule(
        reason="which rows remain depends on the order in which files and tasks are read",
        alternative="a condition over the rows; or ORDER BY over unique columns before LIMIT",
    ),
    Construct.FLOAT_SUM: ParityRule(
        reason="sums of floating-point numbers depend on the order in which partial sums are added",
        alternative="a decimal, or whole units such as cents",
    ),
    Construct.TIME_ZONE: ParityRule(
        reason="it uses the session's time zone, which may differ between two jobs",
        alternative="spark.sql.session.timeZone set in both, or from_utc_timestamp with a named zone",
    ),
    Construct.UDF: ParityRule(
        reason="a Python function that reads a clock, a random value or another system returns another value each time",
        alternative="columns of the record; for data of another system a versioned table that both jobs join",
    ),
    Construct.WATERMARK: ParityRule(
        reason="the stream silently drops records behind the watermark, and a batch ignores the watermark",
        alternative="a ledger of late rows that batch reads",
    ),
    Construct.IDLE_WATERMARK: ParityRule(
        reason="the watermark drops no late row and removes no state",
        alternative="a window of the event time in the grouping and append mode; or no watermark",
    ),
    Construct.DEDUP: ParityRule(
        reason="a stream compares a record with its micro-batch or the ids still in state, a batch with all records",
        alternative="ids with a declared horizon, the same in both, and expired ids retained for batch",
    ),
    Construct.CHAINED: ParityRule(
        reason="the second stateful operator gets rows when the first one emits them, so other rows are late",
        alternative="one stateful operator per query; the second query reads the output of the first",
    ),
    Construct.UNBOUNDED: ParityRule(
        reason="its state grows until the stream is restarted without it, or Spark rejects it; batch has all rows",
        alternative="withWatermark in append or update mode, and for a join a condition that bounds both event times",
    ),
    Construct.OUTPUT_MODE: ParityRule(
        reason="a window is written repeatedly: an appending sink counts it twice, an overwriting one loses rows",
        alternative="append mode, or foreachBatch with a merge by window and key",
    ),
    Construct.NOT_IDEMPOTENT: ParityRule(
        reason="a micro-batch that is repeated after a crash is appended twice",
        alternative="txnAppId and txnVersion of Delta, or a merge by key",
    ),
    Construct.MICRO_BATCH: ParityRule(
        reason="a total over a micro-batch depends on how the stream divides its input, and a batch does not divide it",
        alternative="the total in the stream, before foreachBatch; or totals by micro-batch that the reader adds up",
    ),
    Construct.CHECKPOINT: ParityRule(
        reason="without a separate checkpoint a query starts from scratch, or from the position of another query",
        alternative="one checkpointLocation for each query, and never another query's",
    ),
    Construct.OFFSETS: ParityRule(
        reason="the stream begins at the end of the log, the batch at its beginning",
        alternative='startingOffsets "earliest", or the offsets that batch begins with',
    ),
    Construct.DATA_LOSS: ParityRule(
        reason="the stream continues without lost, changed or unwritten records, which a batch may still read",
        alternative='failOnDataLoss "true"; the change feed of a table that changes; an exception if a write fails',
    ),
    Construct.APPENDED_AGAIN: ParityRule(
        reason="a batch that reads everything again and appends it counts each record once per run",
        alternative="mode overwrite, a merge by key, or a condition that selects only what is new",
    ),
    Construct.TIMER: ParityRule(
        reason="a processing-time timer fires by the clock, and a batch or a replay has other pauses between records",
        alternative="event-time timers behind a watermark: EventTimeTimeout, timeMode EventTime",
    ),
    Construct.DSTREAM: ParityRule(
        reason="batches and windows of a DStream depend on the arrival time of records, which a batch does not know",
        alternative="Structured Streaming with windows of the event time",
    ),
    Construct.NOT_UNDERSTOOD: ParityRule(
        reason="its effect cannot be determined from this file, so everything that depends on it is unchecked",
        alternative="`check_frame(df)` in the job, which checks Spark's plan, or a comparison of both results",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ParityFinding:
    """Occurrence of a construct in a file."""

    file: str
    line: int
    construct: Construct
    subject: str  # the function, option or method

    @property
    def sentence(self) -> str:
        """Describe the construct, the reason and the alternative."""
        rule = RULES[self.construct]
        location = f"{self.file}:{self.line}"
        advice = f"{rule.reason}; instead: {rule.alternative} ({self.page})"
        return f"{location}: {self.construct}: `{self.subject}`: {advice}."

    @property
    def page(self) -> str:
        """Return the page that describes the construct, with its anchor."""
        return f"docs/parity.md#{self.construct}"


RANDOM_SOURCES = (
    *("random.", "secrets.", "numpy.random.", "faker.", "tempfile.", "os.urandom", "uuid.uuid1", "uuid.uuid4"),
    *("uuid.getnode", "scipy.stats."),
)
_CLOCK_CALL = re.compile(
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|localtime|gmtime|ctime|strftime)"
    r"|(datetime|pandas|pendulum|arrow|django\.utils|maya|whenever)\b.*\.(now|utcnow|today|instant)"
)
SERVICES = frozenset(
    {"requests", "urllib3", "httpx", "aiohttp", "http", "redis", "boto3", "botocore", "psycopg2", "psycopg", "pymysql"}
    | {"mysql", "MySQLdb", "sqlite3", "pymongo", "cassandra", "elasticsearch", "opensearchpy", "sqlalchemy", "socket"}
    | {"kafka", "confluent_kafka", "smtplib", "ftplib", "subprocess", "google", "azure", "grpc", "snowflake", "openai"}
    | {"pyodbc", "cx_Oracle", "oracledb", "clickhouse_driver", "neo4j", "paramiko", "geocoder", "multiprocessing"}
)
"""Modules whose functions call another system."""

PURE_MODULES = frozenset(
    {"numpy", "pandas", "pyspark", "pyarrow", "scipy", "dateutil", "pytz", "orjson", "ujson", "simplejson", "regex"}
    | {"unidecode", "typing_extensions", "builtins", "delta"}
)
ENVIRONMENT_DEPENDENT = frozenset(
    {"os", "shutil", "pathlib", "importlib", "ctypes", "runpy", "builtins.open", "builtins.eval", "builtins.exec"}
    | {"builtins.input", "builtins.compile", "builtins.__import__"}
)
"""Modules and functions of the standard library whose result depends on the machine."""


def is_clock(path: str) -> bool:
    """Return whether a function reads the clock."""
    return _CLOCK_CALL.fullmatch(path) is not None


def is_random(path: str) -> bool:
    """Return whether a function draws a random value."""
    return path.startswith(RANDOM_SOURCES)


def is_external_service(path: str) -> bool:
    """Return whether a function calls another system."""
    return path.partition(".")[0] in SERVICES or path.startswith("urllib.request.")


def is_pure(path: str) -> bool:
    """Return whether a function is known to return the same value for the same arguments."""
    root = path.partition(".")[0]
    if is_clock(path) or is_random(path) or is_external_service(path):
        return False
    if root in ENVIRONMENT_DEPENDENT or path in ENVIRONMENT_DEPENDENT:
        return path.startswith("os.path.")
    return root in PURE_MODULES or root in sys.stdlib_module_names


CLOCK = frozenset(
    {"now", "current_timestamp", "current_date", "localtimestamp", "curdate", "unix_timestamp", "current_time"}
)
RANDOM = frozenset(
    {
        "rand",
        "randn",
        "random",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
    }
)
ORDER = frozenset(
    {
        "collect_list",
        "collect_set",
        "array_agg",
        "first",
        "first_value",
        "last",
        "last_value",
        "any_value",
        "listagg",
        "string_agg",
        "mode",
        "percentile_approx",
        "approx_percentile",
    }
)
"""Aggregates whose result may depend on the order of rows."""

MOMENTS = frozenset(
    {"stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop", "skewness", "kurtosis", "corr"}
    | {"covar_samp", "covar_pop"}
)
"""Aggregates that sum floating-point numbers whatever the type of their argument."""

ORDER_INSENSITIVE = frozenset({"sort_array", "array_sort", "size", "cardinality"})
"""Functions over a list whose result does not depend on its order."""

TIME_ZONE = frozenset(
    {"date_trunc", "trunc", "to_date", "date", "hour", "day", "dayofmonth", "date_format", "from_unixtime", "month"}
)
POSITION_COLUMNS = frozenset({"offset", "_offset"})
"""Columns that identify a record within its partition."""


def check_sql(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of statements on which stream and batch differ, in order.

    Args:
        text: One statement or several, in Spark's dialect.
        file: Name of the file in findings.

    Raises:
        DefinitionError: The text is not valid SQL.
    """
    try:
        statements = parse_statements(text)
    except sqlglot.errors.SqlglotError as error:
        msg = f"{file}: expected SQL of Spark, got: {str(error).splitlines()[0]}"
        raise DefinitionError(msg) from None
    lines = text.splitlines()
    findings = (
        ParityFinding(file=file, line=_find_line(node, lines, subject), construct=construct, subject=subject)
        for statement in statements
        for node, construct, subject in _list_findings(statement)
    )
    return tuple(sorted(set(findings)))


SQL_ONLY_FUNCTIONS = frozenset(
    {"int", "bigint", "smallint", "tinyint", "double", "float", "decimal", "string", "boolean", "binary", "timestamp"}
    | {"grouping_id", "grouping", "if", "named_struct", "ifnull", "cube", "rollup", "sentences", "java_method"}
)
"""SQL functions that Spark's Python API lacks."""


def list_unknown_functions(text: str) -> list[tuple[int, str]]:
    """Return the line and name of each function that is not built into Spark."""
    names: list[tuple[int, str]] = []
    lines = text.splitlines()
    for statement in parse_statements(text):
        for node in statement.find_all(exp.Anonymous):
            name = get_spark_function_name(node)
            if not is_spark_function(name):
                names.append((_find_line(node, lines, name), name))
    return names


def is_spark_function(name: str) -> bool:
    """Return whether a lower-case name is a built-in function of Spark's Python API or of its SQL."""
    from pyspark.sql import functions  # noqa: PLC0415 -- a statement without functions that sqlglot lacks needs no Spark

    return name in SQL_ONLY_FUNCTIONS or hasattr(functions, name) or name in CLOCK | RANDOM | ORDER | TIME_ZONE


NodeFinding = tuple[exp.Expr, Construct, str]


def _list_findings(statement: exp.Expr) -> Iterator[NodeFinding]:
    for node in statement.walk():
        if isinstance(node, exp.Func):
            yield from _list_function_findings(node)
        elif isinstance(node, exp.TableSample):
            yield node, Construct.RANDOM, "tablesample"
        elif isinstance(node, exp.Limit) and not _is_ordered(node.parent):
            yield node, Construct.LIMIT, "limit"
        elif isinstance(node, exp.Window):
            yield from _list_window_findings(node)


def get_spark_function_name(node: exp.Func) -> str:
    """Return Spark's lower-case name of a function, which sqlglot may parse under another name."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql(dialect="spark").partition("(")[0].strip().lower()


def _list_function_findings(node: exp.Func) -> Iterator[NodeFinding]:
    name = get_spark_function_name(node)
    if name in CLOCK and not (name == "unix_timestamp" and node.args.get("this") is not None):
        yield node, Construct.CLOCK, name
    elif name in RANDOM:
        yield node, Construct.RANDOM, name
    elif name in ORDER and not _is_sorted(node) and node.find_ancestor(exp.Window) is None:
        yield node, Construct.ORDER, name
    elif name in MOMENTS or (isinstance(node, exp.Sum | exp.Avg) and _is_float(node.this)):
        yield node, Construct.FLOAT_SUM, f"{name} of a double"
    elif type(node) is exp.Cast and node.is_type("date") and not isinstance(node.this, exp.Literal):
        yield node, Construct.TIME_ZONE, "date"  # `date(at)`; CAST(.. AS DATE) is parsed as another class
    elif name in TIME_ZONE:
        yield node, Construct.TIME_ZONE, name


def _is_sorted(node: exp.Expr) -> bool:
    """Return whether a list is sorted, or only counted, before its order can matter."""
    if isinstance(node.parent, exp.WithinGroup) or node.find(exp.Order) is not None:
        return True
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Func) and get_spark_function_name(parent) in ORDER_INSENSITIVE


def _is_float(value: exp.Expr) -> bool:
    kinds = {exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT}
    return any(cast.to.this in kinds for cast in value.find_all(exp.Cast, exp.TryCast))


def _is_ordered(select: exp.Expr | None) -> bool:
    return select is not None and select.args.get("order") is not None


def _list_window_findings(node: exp.Window) -> Iterator[NodeFinding]:
    """Yield a row number or neighboring value whose ORDER BY may have ties."""
    ranking_functions = (exp.RowNumber, exp.FirstValue, exp.LastValue, exp.First, exp.Last, exp.Lag, exp.Lead)
    if not isinstance(node.this, ranking_functions):
        return
    order = node.args.get("order")
    columns = {column.name.lower() for column in order.find_all(exp.Column)} if order is not None else set()
    if not columns & POSITION_COLUMNS:
        yield node, Construct.TIES, get_spark_function_name(node.this)


def _find_line(node: exp.Expr, lines: list[str], subject: str) -> int:
    """Return the line of a node; if the parser recorded none, the first line that contains its name."""
    for part in (node, *node.find_all(exp.Func), *node.find_all(exp.Identifier)):
        if "line" in part.meta:
            return int(part.meta["line"])
    word = subject.split(maxsplit=1)[0]
    return next((number for number, line in enumerate(lines, 1) if word in line.lower()), 1)
