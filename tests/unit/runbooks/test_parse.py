"""Strict parsing of pages: an error is named by file and line."""

from datetime import date

import pytest

from cutover.errors import DefinitionError
from cutover.runbooks import SECTIONS, Command, parse_page, split_head

HEAD = {
    "alert": "NoInput",
    "severity": "info",
    "owner": "pipeline",
    "data_risk": "none; windows stay open",
    "drill": "none (nobody sends by design)",
    "last_drilled": "2026-11-24",
    "time_to_detect": "4.1 s",
    "time_to_repair": "unknown",
}
FIX = """1. Look.
```console
$ cutover status
Kafka  127.0.0.1:29092  (answers)
$ cutover doctor
```
```console changes when=batch
$ cutover batch flights
```
```console example
$ tail -n 20 .cutover/run/flights/driver.log
```
```text
## Not a section
```"""


def text(sections: tuple[str, ...] = SECTIONS, fix: str = FIX, **head: str) -> str:
    lines = "\n".join(f"{key}: {value}" for key, value in (HEAD | head).items())
    body = "\n".join(f"## {title}\n{fix if title == 'Fix' else 'Words.'}\n" for title in sections)
    return f"---\n{lines}\n---\n# NoInput\n\n{body}"


def test_head_names_its_alert_and_its_last_drill() -> None:
    head = parse_page("NoInput", text()).head

    assert (head.alert, head.drill, head.no_drill) == ("NoInput", None, "nobody sends by design")
    assert (head.last_drilled, head.detect_seconds, head.repair_seconds) == (date(2026, 11, 24), 4.1, None)


def test_blocks_have_their_commands_use_and_case() -> None:
    looks, changes, example = parse_page("NoInput", text()).blocks

    assert looks.commands[0] == Command(line="cutover status", expected=("Kafka  127.0.0.1:29092  (answers)",))
    assert [(block.use, block.case) for block in (looks, changes, example)] == [
        ("read", None),
        ("changes", "batch"),
        ("example", None),
    ]


@pytest.mark.parametrize(("case", "lines"), [(None, 1), ("batch", 2), ("stream", 1)])
def test_a_case_includes_its_own_and_the_common_blocks(case: str | None, lines: int) -> None:
    assert len(parse_page("NoInput", text()).select_blocks("Fix", case)) == lines


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("# NoInput\n", "line 1: expected a head"),
        (text().replace("severity: info", "severity: loud"), "expected page, ticket or info, got `loud`"),
        (text().replace("owner: pipeline\n", ""), "expected the keys alert, severity, owner"),
        (text(alert="none"), "expected a name, or `none (why)`, got `none`"),
        (text(last_drilled="yesterday"), "expected a day such as"),
        (text(time_to_detect="4 minutes"), "expected seconds such as"),
        (text(sections=SECTIONS[:-1]), "expected the sections Meaning"),
        (text(sections=(*SECTIONS[1:], SECTIONS[0])), "expected the sections Meaning"),
        (text(fix=""), "expected text in the section"),
        (text(fix="```console now\n$ cutover status\n```"), "expected `console`, then"),
        (text(fix="```bash\ncutover status\n```"), "expected `console` or `text`"),
        (text(fix="```console\nKafka\n```"), "expected a command after `$ ` first"),
        (text(fix="```console\n```"), "expected a command"),
        (text().replace("# NoInput", "# Other"), "expected the title `# NoInput`"),
    ],
)
def test_invalid_page_is_rejected_by_place(page: str, words: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        parse_page("NoInput", page)

    assert "docs/runbooks/NoInput.md, line " in str(refused.value)
    assert words in str(refused.value)


def test_head_is_split_from_the_text() -> None:
    head, body = split_head(text())

    assert (head[:4], head[-4:], body[:10]) == ("---\n", "---\n", "# NoInput\n")
    assert split_head("# Page\n") == ("", "# Page\n")
