"""A time that no timestamp takes is named by its form; one that is taken, or is no time, has none."""

import pytest

from cutover.definition.model.times import name_time_form, parse_iso_micros


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2026-03-02 00:00:00,123", "ISO 8601 with a comma before the fraction"),
        ("2026-03-02t00:00:00z", "ISO 8601 with a lower-case `t` or `z`"),
        ("2026-03-02T00:00Z", "ISO 8601 with no seconds"),
        ("2026-03-02 00:00:00+00", "ISO 8601 with an offset without minutes (`+00`)"),
        ("2026-03-02T00:00:00.000+0000", "ISO 8601 with an offset without a colon (`+0000`)"),
        ("2026-03-02 00:00:00 UTC", "ISO 8601 with a blank before the zone and a named zone (`UTC`)"),
        ("2026-03-02T00:00:00+01:00[Europe/Oslo]", "ISO 8601 with a named zone in brackets"),
        ("2026-03-02T00:00:00.1234567890Z", "ISO 8601 with more than 9 digits after the second"),
        ("1772409600000", "Unix milliseconds as text"),
        ("1772409600.25", "Unix seconds with a fraction as text"),
        ("05/01/2024 10:00:00 AM", "pattern `MM/dd/yyyy hh:mm:ss a`"),
        ("01/25/2024", "pattern `MM/dd/yyyy`"),
        ("25/01/2024 10:00", "pattern `dd/MM/yyyy HH:mm`"),
        ("05/01/2024", "pattern `MM/dd/yyyy` or `dd/MM/yyyy`"),
        ("5.1.2024 10:00:00", "pattern `dd.MM.yyyy HH:mm:ss`"),
        ("2024/01/05 10:00:00.5", "pattern `yyyy/MM/dd HH:mm:ss.SSS`"),
        ("20240105T100000Z", "pattern `yyyyMMdd'T'HHmmss`"),
        ("05/Jan/2024:10:00:00 +0000", "pattern `dd/MMM/yyyy:HH:mm:ss Z`"),
        ("Fri, 05 Jan 2024 10:00:00 GMT", "pattern `EEE, dd MMM yyyy HH:mm:ss zzz`"),
        ("soon", None),
        ("", None),
        ("12:00:00", None),
        ("12345678901", None),
        ("1.2.3", None),
    ],
)
def test_a_text_has_the_form(text: str, form: str | None) -> None:
    assert name_time_form(text, is_number=False) == form
    with pytest.raises(ValueError, match="not a time"):
        parse_iso_micros(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1772409600.25", "Unix seconds with a fraction"),
        ("1772409600000007", "Unix microseconds"),
        ("1772409600000000007", "Unix nanoseconds"),
        ("17", None),
        ("-1772409600", None),
    ],
)
def test_a_number_has_the_form(text: str, form: str | None) -> None:
    assert name_time_form(text, is_number=True) == form


@pytest.mark.parametrize(
    "text", ["2026-03-02", "2026-03-02 00:00:00", "2026-03-02T00:00:00.123456789-05:30", "2026-03-02 00:00:00Z"]
)
def test_a_time_that_is_taken_has_no_other_form(text: str) -> None:
    assert parse_iso_micros(text) > 0
    assert name_time_form(text, is_number=False) is None
