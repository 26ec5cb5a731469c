"""Python functions by dotted name: pure ones, and those that depend on the clock, chance or another system."""

import re
import sys

RANDOM_SOURCES = (
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
    return CLOCK.fullmatch(path) is not None


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
