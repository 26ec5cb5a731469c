from cutover.streaming.process.failure import places

TEXT = """\
Traceback (most recent call last):
  File "stream.py", line 61, in each
    self._epoch(batch, number)
ValueError: the value 'secret' cannot be cast
Caused by: java.lang.NumberFormatException: secret
\tat java.lang.Long.parseLong(Long.java:1)
"""


def test_places_of_an_error_are_told_and_no_value_of_it() -> None:
    assert places(TEXT) == ['File "stream.py", line 61, in each', "at java.lang.Long.parseLong(Long.java:1)"]
