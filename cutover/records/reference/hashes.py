"""xxHash64 in plain Python, with the seed (42) and the byte encoding of each type that Spark's `xxhash64` uses.

Source:
    xxHash fast digest algorithm, specification 0.1.1, section XXH64.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from cutover.definition.model.topic import parse_decimal_type
from cutover.timestamps import EPOCH

SEED = 42
LONG_DIGITS = 18  # maximum precision of a decimal that is hashed as a bigint
ALL = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def spark_hash(value: Any, kind: str) -> int:
    """Return Spark's hash of a value of this type, a signed 64-bit integer."""
    unsigned = xxhash64(_bytes(value, kind), SEED)
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


def xxhash64(data: bytes, seed: int) -> int:
    """Return the XXH64 hash of the bytes, an unsigned 64-bit integer."""
    stripes = len(data) // 32 * 32
    digest = _hash_stripes(data[:stripes], seed) if stripes else (seed + P5) & ALL
    digest = (digest + len(data)) & ALL
    tail = data[stripes:]
    while len(tail) >= 8:  # noqa: PLR2004 -- bytes of a long
        digest = (_rotate_left(digest ^ _round(0, _number(tail[:8])), 27) * P1 + P4) & ALL
        tail = tail[8:]
    if len(tail) >= 4:  # noqa: PLR2004 -- bytes of an int
        digest = (_rotate_left(digest ^ (_number(tail[:4]) * P1 & ALL), 23) * P2 + P3) & ALL
        tail = tail[4:]
    for byte in tail:
        digest = _rotate_left(digest ^ (byte * P5 & ALL), 11) * P1 & ALL
    return _mix_bits(digest)


def _bytes(value: Any, kind: str) -> bytes:
    digits = parse_decimal_type(kind)
    if digits is not None:
        unscaled = int(Decimal(value).scaleb(digits[1]))
        return _to_little_endian(unscaled, 8) if digits[0] <= LONG_DIGITS else _to_big_endian(unscaled)
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
    """Encode as the shortest two's complement, most significant byte first, like Java's `BigInteger.toByteArray`."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_stripes(data: bytes, seed: int) -> int:
    lanes = [(seed + P1 + P2) & ALL, (seed + P2) & ALL, seed, (seed - P1) & ALL]
    for position in range(0, len(data), 8):
        lane = position // 8 % 4
        lanes[lane] = _round(lanes[lane], _number(data[position : position + 8]))
    digest = sum(_rotate_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & ALL
    for lane in lanes:
        digest = ((digest ^ _round(0, lane)) * P1 + P4) & ALL
    return digest


def _round(lane: int, number: int) -> int:
    return _rotate_left((lane + number * P2) & ALL, 31) * P1 & ALL


def _rotate_left(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & ALL


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _mix_bits(digest: int) -> int:
    digest = (digest ^ digest >> 33) * P2 & ALL
    digest = (digest ^ digest >> 29) * P3 & ALL
    return digest ^ digest >> 32
