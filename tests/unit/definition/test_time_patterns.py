"""Patterns of times: what they accept, and what is rejected as a pattern."""

import pytest

from cutover.definition.model.times import compile_pattern
from cutover.errors import DefinitionError
from cutover.timestamps import parse_micros


@pytest.mark.parametrize(
    ("pattern", "text", "time"),
    [
        ("dd.MM.yyyy HH:mm", "02.03.2026 01:30", "2026-03-02T01:30:00"),
        ("d.M.yyyy H:mm:ss", "2.3.2026 1:30:59", "2026-03-02T01:30:59"),
        ("MM/dd/yyyy hh:mm:ss a", "03/02/2026 12:30:00 am", "2026-03-02T00:30:00"),
        ("MM/dd/yyyy h:mm a", "03/02/2026 12:30 PM", "2026-03-02T12:30:00"),
        ("dd/MMM/yyyy:HH:mm:ss Z", "02/Mar/2026:01:30:00 +0130", "2026-03-02T00:00:00"),
        ("yyyyMMdd'T'HHmmss", "20260302T013000", "2026-03-02T01:30:00"),
        ("yyyy-MM-dd HH:mm:ss.SSSXXX", "2026-03-02 01:30:00.5-01:00", "2026-03-02T02:30:00.500000"),
        ("yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "2026-03-02 01:30:00.123456789", "2026-03-02T01:30:00.123456"),
        ("yyyy-MM-dd'T'HHXX", "2026-03-02T01Z", "2026-03-02T01:00:00"),
        ("yyyy-MM-dd", "2024-02-29", "2024-02-29T00:00:00"),
    ],
)
def test_text_is_read_by_its_pattern(pattern: str, text: str, time: str) -> None:
    assert compile_pattern(pattern).parse(text) == parse_micros(time)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("dd.MM.yyyy HH:mm", "2.3.2026 01:30"),
        ("dd.MM.yyyy HH:mm", "30.02.2026 01:30"),
        ("dd.MM.yyyy HH:mm", "02.03.2026 24:00"),
        ("dd.MM.yyyy HH:mm", "02.03.2026 01:30 "),
        ("dd.MM.yyyy HH:mm", "02x03.2026 01:30"),
        ("dd.MM.yyyy hh:mm a", "02.03.2026 13:30 PM"),
        ("dd.MM.yyyy", "02.03.0000\n"),
        ("yyyy-MM-dd XXX", "2026-03-02 +19:00"),
    ],
)
def test_text_of_another_form_is_no_time(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_pattern(pattern).parse(text)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("millis_", "letters, got 'm'"),
        ("dd.MM HH:mm", "year, month and day"),
        ("yyyy-MM-dd 'at", "text between two quotes"),
        ("yyyy-MM-dd''HH", "text between two quotes"),
        ("yyyy-MM-dd[ HH:mm]", "`[[]` between quotes"),
        ("yyyy-MM-dd #HH", "`#` between quotes"),
        ("yyyy-MM-dd {HH}", "`{` between quotes"),
        ("yyyyMMddHHmmssSSS", "a character before `SSS`"),
        ("yyyy-MM-dd HH:mm:ss.SS0", "no digit behind a number"),
        ("yyyy-MM-dd hh:mm", "HH, or hh with a"),
        ("yyyy-MM-dd HH:mm hh a", "HH, or hh with a"),
        ("yyyy-MM-dd ss", "minute with second"),
        ("yyyy-MM-dd yyyy", "each field once"),
        ("yyyyMd", "a character before `d`"),
        ("EEE, dd MMM yyyy", "letters, got 'EEE'"),
        ('yyyy-MM-dd"', "printable ASCII"),
        ("yyyy\u5e74MM-dd", "printable ASCII"),
    ],
)
def test_pattern_that_parsers_do_not_read_alike_is_rejected(pattern: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        compile_pattern(pattern)
