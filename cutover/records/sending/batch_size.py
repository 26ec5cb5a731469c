"""Size of a record batch in Kafka's message format 2, as the topic's `max.message.bytes` limits it."""

HEADER = "cutover-produce"
RUN_CHARACTERS = 16

_BATCH_HEADER = 61
_FIXED_FIELDS = 3 + 1  # attributes, timestamp and offset relative to the batch; count of headers
_HEADER_BYTES = 1 + len(HEADER) + 1 + RUN_CHARACTERS + 1  # lengths, name, run and colon; without the record's number


def make_headers(run: str, number: int) -> list[tuple[str, str | bytes | None]]:
    """Build the headers of a message: its run, and the number of its record in the file."""
    return [(HEADER, f"{run}:{number}".encode())]


def _count_length_bytes(length: str) -> str:
    """Return SQL that counts the bytes of a length, stored in zigzag encoding with seven bits a byte; null is -1."""
    return " + ".join(["1", *(f"CAST({length} >= {1 << bits} AS INTEGER)" for bits in (6, 13, 20, 27))])


_RECORD_BYTES = (
    f"({_FIXED_FIELDS + _HEADER_BYTES} + length(CAST(number AS VARCHAR)) + greatest(key_bytes, 0) + value_bytes"
    f" + {_count_length_bytes('key_bytes')} + {_count_length_bytes('value_bytes')})"
)
BATCH_BYTES = f"({_BATCH_HEADER} + {_RECORD_BYTES} + {_count_length_bytes(_RECORD_BYTES)})"
"""SQL over the columns of a spool: bytes of a batch with one record, which is the size without compression."""
