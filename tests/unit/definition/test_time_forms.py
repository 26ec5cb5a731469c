"""Forms of times that a timestamp column does not accept; valid timestamps and other texts have none."""

import pytest

from cutover.definition.model.times import name_rejected_time, name_time_form, parse_iso_micros


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
        ("2026-02-29", "there is no day 2026-02-29"),
        ("2026-13-01T00:00:00Z", "there is no day 2026-13-01"),
        ("2026-04-00 10:00:00", "there is no day 2026-04-00"),
        ("2026-04-01T24:00:00Z", "there is no time of day 24:00"),
        ("2026-04-01T23:60:00+01:00", "there is no time of day 23:60"),
        ("2026-04-01T10:00:60Z", "a leap second"),
        ("2026-04-01T10:00:61.5Z", "there is no second 61"),
        ("2026-04-01T10:00:00+19:00", "an offset beyond 14:59 (`+19:00`)"),
        ("0999-12-31", "only years 1000 to 8999 are accepted"),
        ("1000-01-01T00:00:00+01:00", "only years 1000 to 8999 are accepted"),
        ("0000-02-29", "only years 1000 to 8999 are accepted"),
        (" 2026-04-01T10:00:00Z", "a blank before or after the time"),
        ("2026-04-01 ", "a blank before or after the time"),
        ("soon", None),
        ("", None),
        ("12:00:00", None),
        ("12345678901", None),
        ("1.2.3", None),
    ],
)
def test_a_text_has_the_form(text: str, form: str | None) -> None:
    assert name_time_form(text, is_number=False) == form
    with pytest.raises(ValueError, match=r"."):
        parse_iso_micros(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2026-04-01T10", "ISO 8601 with no minutes"),
        ("2026-4-1T9:0:00Z", "ISO 8601 with numbers of one digit"),
        ("2026-090", "ISO 8601 with a day of the year"),
        ("2026-W14-1", "ISO 8601 with a week"),
        ("2026-04", "ISO 8601 with neither day nor time"),
        ("12026-01-01", "ISO 8601 with a year of more than four digits"),
        ("2026-03-02", None),
    ],
)
def test_a_part_of_a_time_has_a_form_only_where_a_time_is_expected(text: str, form: str | None) -> None:
    assert name_rejected_time(text, is_number=False) == form
    assert name_time_form(text, is_number=False) is None


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
def test_an_accepted_time_has_no_other_form(text: str) -> None:
    assert parse_iso_micros(text) > 0
    assert name_time_form(text, is_number=False) is None
