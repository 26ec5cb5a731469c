from cutover.streaming.process.context import places

TEXT = """\
Traceback (most recent call last):
  File "stream.py", line 61, in each
    self._epoch(batch, number)
ValueError: the value 'secret' cannot be cast
Caused by: java.lang.NumberFormatException: secret
\tat java.lang.Long.parseLong(Long.java:1)
"""


def test_traceback_of_an_error_contains_no_values() -> None:
    assert places(TEXT) == ['File "stream.py", line 61, in each', "at java.lang.Long.parseLong(Long.java:1)"]
