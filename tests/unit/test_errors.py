"""Messages of libraries, as errors of Cutover show them."""

import pytest

from cutover.errors import mask_logins, summarize_error


def test_causes_of_an_error_are_on_one_line_without_colors_and_passwords() -> None:
    error = OSError("Generic S3 error\n   \x1b[31m\u21b3\x1b[0m GET http://me:geheim@127.0.0.1:1/t failed.\n")

    assert summarize_error(error) == "Generic S3 error: GET http://me:***@127.0.0.1:1/t failed"
    assert summarize_error(OSError()) == "OSError"


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:80/a@b", "postgresql://ann@db/shop", "at 10:00 to ann@db", "abfss://box@account/t"]
)
def test_a_text_without_a_password_is_not_changed(text: str) -> None:
    assert mask_logins(text) == text
