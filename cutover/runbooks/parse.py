"""From a page's text to its values. Strict: what does not fit is named by file and line, nothing is guessed."""

import re
from collections.abc import Iterator
from datetime import date
from typing import NoReturn

from cutover.errors import DefinitionError
from cutover.runbooks.page import KEYS, SECTIONS, Block, Command, Head, Page, Use

_FENCE = "```"
_NONE = re.compile(r"none \((.+)\)\Z")
_NAME = re.compile(r"[A-Z][A-Za-z]+\Z")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?) s\Z")
_OPENING = re.compile(r"```console(?: (changes|example))?(?: when=([a-z-]+))?\Z")
_SEVERITIES = ("page", "ticket", "info")


def parse_page(name: str, text: str) -> Page:
    """Return a runbook's values.

    Args:
        name: Of the page, its file's stem.
        text: Of the file: a head between two lines `---`, a title, the sections.

    Raises:
        DefinitionError: The head lacks a key or has one too many, a value does not fit, a section is missing, empty or
            out of order, or a block of commands is not one; with file and line.
    """
    lines = text.splitlines()
    after = _find_end_of_head(name, lines)
    head = _parse_head(name, lines[1:after])
    if lines[after + 1 : after + 2] != [f"# {name}"]:
        _reject(name, after + 1, f"the title `# {name}`", "".join(lines[after + 1 : after + 2]))
    sections = _split_sections(name, lines, after + 2)
    return Page(name=name, head=head, sections=sections, blocks=tuple(_find_blocks(name, lines, after + 2)))


def split_head(text: str) -> tuple[str, str]:
    """Return a page's head with its lines `---`, and what stands behind it; no head where a text has none."""
    if not text.startswith("---\n"):
        return "", text
    end = text.index("\n---\n", 3) + len("\n---\n")
    return text[:end], text[end:]


def _find_end_of_head(name: str, lines: list[str]) -> int:
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        _reject(name, 0, "a head between two lines `---`", "".join(lines[:1]))
    return lines.index("---", 1)


def _parse_head(name: str, lines: list[str]) -> Head:
    pairs = [line.partition(": ") for line in lines]
    keys = tuple(key for key, _, _ in pairs)
    if keys != KEYS:
        _reject(name, 1, f"the keys {', '.join(KEYS)}", ", ".join(keys))
    values = {key: value.strip() for key, _, value in pairs}
    alert, no_alert = _parse_optional_name(name, "alert", values["alert"])
    drill, no_drill = _parse_optional_name(name, "drill", values["drill"])
    if values["severity"] not in _SEVERITIES:
        _reject(name, KEYS.index("severity") + 1, "page, ticket or info", values["severity"])
    if not values["owner"] or not values["data_risk"]:
        _reject(name, KEYS.index("owner") + 1, "an owner and a data risk", "nothing")
    return Head(
        alert=alert,
        no_alert=no_alert,
        severity=values["severity"],
        owner=values["owner"],
        data_risk=values["data_risk"],
        drill=drill,
        no_drill=no_drill,
        last_drilled=_parse_day(name, values["last_drilled"]),
        detect_seconds=_parse_seconds(name, "time_to_detect", values["time_to_detect"]),
        repair_seconds=_parse_seconds(name, "time_to_repair", values["time_to_repair"]),
    )


def _parse_optional_name(name: str, key: str, value: str) -> tuple[str | None, str | None]:
    """Return a name, or why there is none: `none (why)`."""
    reason = _NONE.match(value)
    if reason:
        return None, reason[1]
    if not _NAME.match(value):
        _reject(name, KEYS.index(key) + 1, "a name, or `none (why)`", value)
    return value, None


def _parse_day(name: str, value: str) -> date | None:
    if value == "never":
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        _reject(name, KEYS.index("last_drilled") + 1, "a day such as `2026-11-24`, or `never`", value)


def _parse_seconds(name: str, key: str, value: str) -> float | None:
    if value == "unknown":
        return None
    match = _SECONDS.match(value)
    if match is None:
        _reject(name, KEYS.index(key) + 1, "seconds such as `4.1 s`, or `unknown`", value)
    return float(match[1])


def _split_sections(name: str, lines: list[str], first: int) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    is_inside, title = False, ""
    for at, line in enumerate(lines[first:], first):
        is_inside ^= line.startswith(_FENCE)
        if not is_inside and line.startswith("## "):
            title = line.removeprefix("## ")
            if title in found:
                _reject(name, at, "each section once", title)
            found[title] = []
        elif title:
            found[title].append(line)
    if tuple(found) != SECTIONS:
        _reject(name, first, f"the sections {', '.join(SECTIONS)}", ", ".join(found))
    sections = {item: "\n".join(body).strip() for item, body in found.items()}
    for item, body in sections.items():
        if not body:
            _reject(name, lines.index(f"## {item}"), "text in the section", "nothing")
    return sections


def _find_blocks(name: str, lines: list[str], first: int) -> Iterator[Block]:
    section, start = "", -1
    for at, line in enumerate(lines[first:], first):
        if start < 0 and line.startswith("## "):
            section = line.removeprefix("## ")
        if not line.startswith(_FENCE):
            continue
        if start < 0:
            start = at
        else:
            if lines[start].startswith("```console"):
                yield _parse_block(name, section, start, lines[start:at])
            elif lines[start] != "```text":
                _reject(name, start, "`console` or `text` behind the three backticks", lines[start])
            start = -1
    if start >= 0:
        _reject(name, start, "an end of the block", "the end of the page")


def _parse_block(name: str, section: str, at: int, lines: list[str]) -> Block:
    opening = _OPENING.match(lines[0])
    if opening is None:
        _reject(name, at, "`console`, then `changes` or `example`, then `when=case`", lines[0])
    commands: list[Command] = []
    for line in lines[1:]:
        if line.startswith("$ "):
            commands.append(Command(line=line.removeprefix("$ "), expected=()))
        elif commands:
            end = commands.pop()
            commands.append(Command(line=end.line, expected=(*end.expected, line)))
        else:
            _reject(name, at + 1, "a command behind `$ ` first", line)
    if not commands:
        _reject(name, at, "a command", "an empty block")
    use: Use = "changes" if opening[1] == "changes" else "example" if opening[1] == "example" else "read"
    return Block(section=section, use=use, case=opening[2], commands=tuple(commands), place=_place(name, at))


def _place(name: str, at: int) -> str:
    return f"docs/runbooks/{name}.md, line {at + 1}"


def _reject(name: str, at: int, expected: str, actual: str) -> NoReturn:
    msg = f"{_place(name, at)}: expected {expected}, got `{actual[:120]}`."
    raise DefinitionError(msg)
