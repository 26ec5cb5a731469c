"""xxHash64 in plain Python, as Spark's `xxhash64` takes each type: with seed 42, of its bytes, lowest first.

Source:
    xxHash fast digest algorithm, specification 0.1.1, section XXH64.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from cutover.definition.model.topic import parse_decimal_type
from cutover.timestamps import EPOCH

SEED = 42
LONG_DIGITS = 18  # a decimal of so many is hashed as a bigint
ALL = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def spark_hash(value: Any, kind: str) -> int:
    """Return Spark's hash of a value of a type, a signed number of 64 bits."""
    found = xxhash64(_bytes(value, kind), SEED)
    return found - 2**64 if found >= 2**63 else found


def xxhash64(data: bytes, seed: int) -> int:
    """Return the hash of some bytes, an unsigned number of 64 bits."""
    stripes = len(data) // 32 * 32
    found = _hash_stripes(data[:stripes], seed) if stripes else (seed + P5) & ALL
    found = (found + len(data)) & ALL
    rest = data[stripes:]
    while len(rest) >= 8:  # noqa: PLR2004 -- bytes of a long
        found = (_rotate_left(found ^ _round(0, _number(rest[:8])), 27) * P1 + P4) & ALL
        rest = rest[8:]
    if len(rest) >= 4:  # noqa: PLR2004 -- bytes of an int
        found = (_rotate_left(found ^ (_number(rest[:4]) * P1 & ALL), 23) * P2 + P3) & ALL
        rest = rest[4:]
    for byte in rest:
        found = _rotate_left(found ^ (byte * P5 & ALL), 11) * P1 & ALL
    return _mix_bits(found)


def _bytes(value: Any, kind: str) -> bytes:
    digits = parse_decimal_type(kind)
    if digits is not None:
        whole = int(Decimal(value).scaleb(digits[1]))
        return _to_little_endian(whole, 8) if digits[0] <= LONG_DIGITS else _to_big_endian(whole)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime):
        return _to_little_endian((value.replace(tzinfo=EPOCH.tzinfo) - EPOCH) // datetime.resolution, 8)
    if isinstance(value, date):
        return _to_little_endian((value - EPOCH.date()).days, 4)
    return _to_little_endian(int(value), 8 if kind == "bigint" else 4)


def _to_little_endian(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little", signed=True)


def _to_big_endian(number: int) -> bytes:
    """Return the shortest two's complement, highest byte first, as Java writes a BigInteger."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_stripes(data: bytes, seed: int) -> int:
    lanes = [(seed + P1 + P2) & ALL, (seed + P2) & ALL, seed, (seed - P1) & ALL]
    for place in range(0, len(data), 8):
        lane = place // 8 % 4
        lanes[lane] = _round(lanes[lane], _number(data[place : place + 8]))
    found = sum(_rotate_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & ALL
    for lane in lanes:
        found = ((found ^ _round(0, lane)) * P1 + P4) & ALL
    return found


def _round(lane: int, number: int) -> int:
    return _rotate_left((lane + number * P2) & ALL, 31) * P1 & ALL


def _rotate_left(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & ALL


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _mix_bits(found: int) -> int:
    found = (found ^ found >> 33) * P2 & ALL
    found = (found ^ found >> 29) * P3 & ALL
    return found ^ found >> 32
