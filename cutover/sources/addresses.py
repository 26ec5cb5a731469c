"""Addresses of tables in databases and catalogs, and the forms of them that may be shown: never with a password.

`postgresql://user@host/database#schema.table` names a table of a server, `iceberg://catalog/namespace.table` one of a
catalog that pyiceberg is configured for. `env:PAYMENTS_DB#schema.table` takes the part before `#` from an environment
variable, so that a password is in no command line.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from cutover.errors import DefinitionError

HIDDEN = "***"
STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "file", "memory")
POSTGRES = ("postgresql", "postgres")
ICEBERG = "iceberg"
FORM = "`scheme://user@host/database#schema.table`"

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<slashes>/*)(?P<rest>.*)", re.DOTALL)
_REFERENCE = re.compile(r"env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(#(?P<table>.*))?", re.DOTALL)
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://"
    r"((?P<user>[^:/?#@]*)(:(?P<password>[^/?#@]*))?@)?"
    r"(?P<host>[^/?#@]*)(?P<path>/[^?#@]*)?(\?(?P<query>[^#@]*))?(#(?P<table>[^#@]*))?",
    re.DOTALL,
)
_PORTS = re.compile(r"[^:]*(:[0-9]*)?|\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
_HARMLESS = frozenset(
    [
        "application_name",
        "catalog",
        "channel_binding",
        "connect_timeout",
        "dbname",
        "database",
        "host",
        "hostaddr",
        "http_path",
        "keepalives",
        "location",
        "port",
        "project",
        "read_only",
        "region",
        "requiressl",
        "role",
        "schema",
        "service",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
        "user",
        "warehouse",
    ]
)
"""Parameters of an address whose values are no secrets; all others are hidden."""

_ASSIGNED = re.compile(r"(?i)\b(\w*(?:password|passwd|passphrase|pwd|secret|token))(\s*=\s*)('[^']*'|[^\s&;,`]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """Address of a table in a database or a catalog."""

    scheme: str
    url: str = field(repr=False)  # without the table; it may contain a password
    host: str
    path: str  # `/database`
    table: str  # as the user names it, such as `schema.table`
    shown: str  # address without secrets
    secrets: tuple[str, ...] = field(repr=False)  # texts that must appear nowhere

    def redact(self, text: object) -> str:
        """Return the first line of a driver's message without the secrets of this address."""
        return redact(text, self.secrets)


def parse_table_address(source: str, environment: Mapping[str, str] | None = None) -> TableAddress | None:
    """Return the address of a table in a database or a catalog; None for files and object stores.

    Args:
        source: As the user names the table.
        environment: Where `env:NAME` is looked up; None: that of this process.

    Raises:
        DefinitionError: An address that cannot be taken apart, so that no part of it may be shown, or the variable is
            not set.
    """
    reference = _REFERENCE.fullmatch(source)
    if reference is not None:
        return _follow_reference(reference, os.environ if environment is None else environment)
    match = _SCHEME.fullmatch(source)
    if match is None or match["scheme"].lower() in STORES or Path(source).exists():
        return None
    if len(match["scheme"]) == 1 or (not match["slashes"].startswith("//") and "@" not in source):
        return None  # a path with a colon
    if match["scheme"].lower() == ICEBERG:
        catalog, _, table = match["rest"].partition("/")
        return TableAddress(
            scheme=ICEBERG,
            url=source,
            host=catalog,
            path="",
            table=unquote(table),
            shown=mask_source(source),
            secrets=(),
        )
    return _parse_url(source, mask_address(source))


def _follow_reference(reference: re.Match[str], environment: Mapping[str, str]) -> TableAddress:
    variable, table = reference["variable"], reference["table"]
    value = environment.get(variable)
    if not value:
        msg = f"Table `env:{variable}`: expected an address in the environment variable `{variable}`, it is not set."
        raise DefinitionError(msg + f"\nHint: `export {variable}=postgresql://user:password@host/database`.")
    shown = f"env:{variable}" if table is None else f"env:{variable}#{table}"
    return _parse_url(value if table is None else f"{value}#{table}", shown)


def _parse_url(url: str, shown: str) -> TableAddress:
    match = _URL.fullmatch(url)
    if match is None or not all(_PORTS.fullmatch(host) for host in match["host"].split(",")):
        msg = f"Table `{shown}`: expected an address such as {FORM}, got one that cannot be taken apart."
        hint = "\nHint: in a password `@`, `/`, `?`, `#` and `%` are written `%40`, `%2F`, `%3F`, `%23` and `%25`."
        raise DefinitionError(msg + hint)
    return TableAddress(
        scheme=match["scheme"].lower(),
        url=url if match["table"] is None else url[: match.start("table") - 1],
        host=match["host"],
        path=match["path"] or "",
        table=match["table"] or "",
        shown=shown,
        secrets=tuple(_list_secrets(match)),
    )


def _list_secrets(match: re.Match[str]) -> list[str]:
    """Return every form of the password and of parameters that may be secret."""
    values = [match["password"] or ""]
    for parameter in (match["query"] or "").split("&"):
        name, _, value = parameter.partition("=")
        values += [value] if name.lower() not in _HARMLESS else []
    forms = [form for value in values for form in (value, unquote(value), quote(unquote(value), safe=""))]
    return [form for form in dict.fromkeys(forms) if form]


def list_url_secrets(url: str) -> list[str]:
    """Return the texts of a URL that must appear nowhere: all of it if it cannot be taken apart."""
    match = _URL.fullmatch(url)
    return [url] if match is None else _list_secrets(match)


def redact(message: object, secrets: Sequence[str]) -> str:
    """Return the first line of a driver's message without secrets, and without its full stop."""
    line = (str(message).strip() or type(message).__name__).splitlines()[0]
    for secret in sorted(secrets, key=len, reverse=True):
        line = line.replace(secret, HIDDEN)
    return mask_assignments(line).rstrip(". ")


def mask_address(text: str) -> str:
    """Return an address as it may be shown: without a password and without parameters that may be secret."""
    match = _URL.fullmatch(text)
    if match is None:
        scheme = _SCHEME.fullmatch(text)
        if scheme is None:
            return mask_assignments(text)
        rest = scheme["rest"]
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}" if "@" in rest else rest
        return mask_assignments(f"{scheme['scheme']}:{scheme['slashes']}{rest}")
    user = "" if match["user"] is None else f"{match['user']}{'' if match['password'] is None else f':{HIDDEN}'}@"
    parameters = "&".join(
        f"{name}={value if name.lower() in _HARMLESS else HIDDEN}"
        for name, value in parse_qsl(match["query"] or "", keep_blank_values=True)
    )
    query = "" if match["query"] is None else f"?{parameters}"
    table = "" if match["table"] is None else f"#{match['table']}"
    return f"{match['scheme']}://{user}{match['host']}{match['path'] or ''}{query}{table}"


def mask_assignments(text: str) -> str:
    """Return a text in which the values of `password=...` and the like are hidden."""
    return _ASSIGNED.sub(rf"\1\2{HIDDEN}", text)


def mask_source(source: str) -> str:
    """Return the name of a table as messages, reports and stored files may show it."""
    if Path(source).exists() or source.startswith("env:"):
        return source
    match = _SCHEME.fullmatch(source)
    if match is None:
        return mask_assignments(source)
    if match["scheme"].lower() == ICEBERG:
        place, at, snapshot = source.partition("@snapshot=")
        return mask_address(place) + at + snapshot
    has_login = ":" in match["rest"].partition("/")[0].rpartition("@")[0]
    if match["scheme"].lower() in STORES and not has_login and "?" not in source:
        return source
    return mask_address(source)
