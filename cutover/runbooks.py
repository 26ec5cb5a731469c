"""A runbook as values, its strict parser, and the folder of all pages.

A page has a head, sections, and blocks of commands that a drill runs. An invalid part is reported with file and line.
A drill writes into the head when it ran last, and how long it took.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, NoReturn

from cutover import files
from cutover.errors import DefinitionError

Use = Literal["read", "changes", "example"]
"""Use of a block: its commands only read, they change something, or they are examples and never run."""

SECTIONS = ("Meaning", "Impact", "Diagnose", "Mitigate", "Fix", "Verify", "Escalate", "Prevent", "Do not")
"""Sections of every page, in order."""

KEYS = (
    "alert",
    "severity",
    "owner",
    "data_risk",
    "drill",
    "last_drilled",
    "time_to_detect",
    "time_to_repair",
)
"""Keys of every head, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Head of a page: key-value pairs before its text.

    Attributes:
        alert: Alert that links to this page; None without one.
        no_alert: Reason why there is no alert; None with one.
        severity: `page`, `ticket` or `info`.
        owner: Team that is responsible.
        data_risk: Possible damage to the data, in a few words.
        drill: Name for `cutover drill`; None without a drill.
        no_drill: Reason why there is no drill.
        last_drilled: Day (UTC) of the latest recorded drill; None before the first.
        detect_seconds: From the injection to the alert, in that drill.
        repair_seconds: From the alert to its end, in that drill.
    """

    alert: str | None
    no_alert: str | None
    severity: str
    owner: str
    data_risk: str
    drill: str | None
    no_drill: str | None
    last_drilled: date | None
    detect_seconds: float | None
    repair_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Command line with its expected output lines, in order; other lines may be in between."""

    line: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Block of commands.

    Attributes:
        section: Title of its section.
        use: Use of the block.
        case: Case of the fix to which it belongs (`when=`); None: every case.
        commands: Commands in order.
        place: File and line, for messages.
    """

    section: str
    use: Use
    case: str | None
    commands: tuple[Command, ...]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Runbook."""

    name: str
    head: Head
    sections: Mapping[str, str]  # title -> text, in the page's order
    blocks: tuple[Block, ...]

    def select_blocks(self, section: str, case: str | None) -> tuple[Block, ...]:
        """Select the blocks of a section that are run in a case, without examples."""
        return tuple(
            block
            for block in self.blocks
            if block.section == section and block.use != "example" and block.case in {None, case}
        )


_FENCE = "```"
_NONE = re.compile(r"none \((.+)\)\Z")
_NAME = re.compile(r"[A-Z][A-Za-z]+\Z")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?) s\Z")
_OPENING = re.compile(r"```console(?: (changes|example))?(?: when=([a-z-]+))?\Z")
_SEVERITIES = ("page", "ticket", "info")


def parse_page(name: str, text: str) -> Page:
    """Parse a runbook.

    Args:
        name: Name of the page, the stem of its file.
        text: Text of the file: a head between two lines `---`, a title, the sections.

    Raises:
        DefinitionError: The head has missing or extra keys, a value is invalid, a section is missing, empty or out of
            order, or a block of commands is invalid; with file and line.
    """
    lines = text.splitlines()
    head_end = _find_end_of_head(name, lines)
    head = _parse_head(name, lines[1:head_end])
    title_lines = lines[head_end + 1 : head_end + 2]
    if title_lines != [f"# {name}"]:
        _reject(name, head_end + 1, f"the title `# {name}`", "".join(title_lines))
    sections = _split_sections(name, lines, head_end + 2)
    return Page(name=name, head=head, sections=sections, blocks=tuple(_find_blocks(name, lines, head_end + 2)))


def split_head(text: str) -> tuple[str, str]:
    """Split a page into its head, including the lines `---`, and the rest; the head may be empty."""
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
    """Parse a name, or the reason why there is none: `none (why)`."""
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


def _split_sections(name: str, lines: list[str], first_line: int) -> dict[str, str]:
    lines_by_title: dict[str, list[str]] = {}
    is_inside, title = False, ""
    for index, line in enumerate(lines[first_line:], first_line):
        is_inside ^= line.startswith(_FENCE)
        if not is_inside and line.startswith("## "):
            title = line.removeprefix("## ")
            if title in lines_by_title:
                _reject(name, index, "each section once", title)
            lines_by_title[title] = []
        elif title:
            lines_by_title[title].append(line)
    if tuple(lines_by_title) != SECTIONS:
        _reject(name, first_line, f"the sections {', '.join(SECTIONS)}", ", ".join(lines_by_title))
    sections = {item: "\n".join(body).strip() for item, body in lines_by_title.items()}
    for item, body in sections.items():
        if not body:
            _reject(name, lines.index(f"## {item}"), "text in the section", "nothing")
    return sections


def _find_blocks(name: str, lines: list[str], first_line: int) -> Iterator[Block]:
    section, start = "", -1
    for index, line in enumerate(lines[first_line:], first_line):
        if start < 0 and line.startswith("## "):
            section = line.removeprefix("## ")
        if not line.startswith(_FENCE):
            continue
        if start < 0:
            start = index
        else:
            if lines[start].startswith("```console"):
                yield _parse_block(name, section, start, lines[start:index])
            elif lines[start] != "```text":
                _reject(name, start, "`console` or `text` after the three backticks", lines[start])
            start = -1
    if start >= 0:
        _reject(name, start, "an end of the block", "the end of the page")


def _parse_block(name: str, section: str, index: int, lines: list[str]) -> Block:
    opening = _OPENING.match(lines[0])
    if opening is None:
        _reject(name, index, "`console`, then `changes` or `example`, then `when=case`", lines[0])
    commands: list[Command] = []
    for line in lines[1:]:
        if line.startswith("$ "):
            commands.append(Command(line=line.removeprefix("$ "), expected=()))
        elif commands:
            last_command = commands.pop()
            commands.append(Command(line=last_command.line, expected=(*last_command.expected, line)))
        else:
            _reject(name, index + 1, "a command after `$ ` first", line)
    if not commands:
        _reject(name, index, "a command", "an empty block")
    use: Use = "changes" if opening[1] == "changes" else "example" if opening[1] == "example" else "read"
    return Block(section=section, use=use, case=opening[2], commands=tuple(commands), place=_place(name, index))


def _place(name: str, index: int) -> str:
    return f"docs/runbooks/{name}.md, line {index + 1}"


def _reject(name: str, index: int, expected: str, actual: str) -> NoReturn:
    msg = f"{_place(name, index)}: expected {expected}, got `{actual[:120]}`."
    raise DefinitionError(msg)


FOLDER = Path(__file__).resolve().parents[1] / "docs" / "runbooks"
_FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z")


def list_runbooks() -> list[str]:
    """List the names of all pages, sorted; none in an installation without them."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def read_text(name: str) -> str | None:
    """Read the text of a page; None if no page has this name."""
    file = FOLDER / f"{name}.md"
    return file.read_text(encoding="utf-8") if _FILE_NAME.match(name) and file.is_file() else None


def read_page(name: str) -> Page:
    """Read and parse a page.

    Raises:
        DefinitionError: The page does not exist or is invalid.
    """
    text = read_text(name)
    if text is None or name == "README":
        msg = f"Runbook: expected the name of a page in `docs/runbooks`, got `{name[:80]}`."
        raise DefinitionError(msg + "\nHint: the README of that folder lists them; they have the names of alerts.")
    return parse_page(name, text)


def write_times(name: str, *, day: date, detect_seconds: float, repair_seconds: float) -> None:
    """Write the day of the latest drill and its times to detect and to repair into a page's head."""
    text = read_text(name)
    if text is None:
        return
    values = {
        "last_drilled": f"{day:%Y-%m-%d}",
        "time_to_detect": f"{detect_seconds:.1f} s",
        "time_to_repair": f"{repair_seconds:.1f} s",
    }
    files.write_atomically(FOLDER / f"{name}.md", replace_head_values(text, values), mode=0o644)


def replace_head_values(text: str, values: Mapping[str, str]) -> str:
    """Replace the values of some keys in a page's head."""
    head, body = split_head(text)
    lines = [line.partition(": ") for line in head.splitlines()]
    return "".join(f"{key}{colon}{values.get(key, value)}\n" for key, colon, value in lines) + body
