"""Functions of Python by their dotted names: those that give one value for one argument, and those that may not."""

import re
import sys

CHANCE = (
    *("random.", "secrets.", "numpy.random.", "faker.", "tempfile.", "os.urandom", "uuid.uuid1", "uuid.uuid4"),
    *("uuid.getnode", "scipy.stats."),
)
CLOCK = re.compile(
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|localtime|gmtime|ctime|strftime)"
    r"|(datetime|pandas|pendulum|arrow|django\.utils|maya|whenever)\b.*\.(now|utcnow|today|instant)"
)
SERVICES = frozenset(
    {"requests", "urllib3", "httpx", "aiohttp", "http", "redis", "boto3", "botocore", "psycopg2", "psycopg", "pymysql"}
    | {"mysql", "MySQLdb", "sqlite3", "pymongo", "cassandra", "elasticsearch", "opensearchpy", "sqlalchemy", "socket"}
    | {"kafka", "confluent_kafka", "smtplib", "ftplib", "subprocess", "google", "azure", "grpc", "snowflake", "openai"}
    | {"pyodbc", "cx_Oracle", "oracledb", "clickhouse_driver", "neo4j", "paramiko", "geocoder", "multiprocessing"}
)
"""Modules whose functions ask another system."""

PURE = frozenset(
    {"numpy", "pandas", "pyspark", "pyarrow", "scipy", "dateutil", "pytz", "orjson", "ujson", "simplejson", "regex"}
    | {"unidecode", "typing_extensions", "builtins", "delta"}
)
OPEN = frozenset(
    {"os", "shutil", "pathlib", "importlib", "ctypes", "runpy", "builtins.open", "builtins.eval", "builtins.exec"}
    | {"builtins.input", "builtins.compile", "builtins.__import__"}
)
"""Modules and functions of Python itself whose value depends on where they run."""


def is_clock(path: str) -> bool:
    """Return whether a function asks the clock."""
    return CLOCK.fullmatch(path) is not None


def is_chance(path: str) -> bool:
    """Return whether a function draws a random value."""
    return path.startswith(CHANCE)


def is_service(path: str) -> bool:
    """Return whether a function asks another system."""
    return path.partition(".")[0] in SERVICES or path.startswith("urllib.request.")


def is_pure(path: str) -> bool:
    """Return whether a function is known to give one value for one argument."""
    root = path.partition(".")[0]
    if is_clock(path) or is_chance(path) or is_service(path):
        return False
    if root in OPEN or path in OPEN:
        return path.startswith("os.path.")
    return root in PURE or root in sys.stdlib_module_names
