"""Table of all settings with value, source and meaning; secrets are hidden."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from cutover.settings import Settings

HIDDEN = "(hidden)"
SECRET_NAME = re.compile(r"passw|secret|token|credential|jaas|account\.key|access\.key", re.IGNORECASE)
USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """Setting with its displayed value, its source and its meaning."""

    name: str  # as in cutover.toml: kafka.protocol
    value: str
    source: str  # default, cutover.toml, or the variable's name
    meaning: str


def rows(settings: Settings, *, environment: Mapping[str, str], toml: Mapping[str, object]) -> list[SettingRow]:
    """List every setting with its value, without secrets, and its source.

    Args:
        settings: Effective settings.
        environment: Environment from which `CUTOVER_*` were read.
        toml: Content of `cutover.toml`.
    """
    upper = {name.upper() for name in environment}
    return [
        SettingRow(
            name=".".join(path),
            value=format_setting(path[-1], value),
            source=_source(path, upper, toml),
            meaning=meaning,
        )
        for path, value, meaning in _leaves(settings, ())
    ]


def read_toml() -> dict[str, object]:
    """Read `cutover.toml` in the working folder; empty if there is none."""
    path = Path(str(Settings.model_config.get("toml_file")))
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def current(settings: Settings) -> list[SettingRow]:
    """List every setting, with the sources of this process: its environment and `cutover.toml`."""
    return rows(settings, environment=os.environ, toml=read_toml())


def format_setting(name: str, value: object) -> str:
    """Format a value for display, with secrets hidden and credentials removed from addresses."""
    if value is None:
        return ""
    if isinstance(value, SecretStr) or (SECRET_NAME.search(name) and not isinstance(value, Path)):
        return HIDDEN
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={format_setting(str(key), item)}" for key, item in sorted(value.items()))
    return USER_INFO.sub(f"{HIDDEN}@", str(value))


def _leaves(model: BaseModel, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object, str]]:
    fields: dict[str, FieldInfo] = type(model).model_fields
    for name, field in fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value, field.description or ""


def _source(path: tuple[str, ...], environment: set[str], toml: Mapping[str, object]) -> str:
    for length in range(len(path), 0, -1):  # CUTOVER_KAFKA may hold all of kafka as JSON
        variable = "CUTOVER_" + "__".join(path[:length]).upper()
        if variable in environment:
            return variable
    prefix = "CUTOVER_" + "__".join(path).upper() + "__"  # of single keys of a mapping
    if any(name.startswith(prefix) for name in environment):
        return f"{prefix}*"
    value: object = toml
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return "default" if value is None else "cutover.toml"
