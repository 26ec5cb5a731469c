"""Lines of CSV: drawn ones, with quotes and escapes in odd places, and those that parsers disagree on."""

import random

from cutover.definition.model.topic import CsvOptions
from tests.support.rows.job_values import TEXTS, draw_time

SCHEMA = "b boolean, i int, n bigint, x double, d decimal(10,2), w decimal(38,18), s string, v date, at timestamp"
COLUMNS = 9

OPTIONS = (
    CsvOptions(),
    CsvOptions(delimiter=";", quote="'", escape="'", null_value="NA"),
    CsvOptions(delimiter="\t", quote="", escape="\\", null_value="null"),
    CsvOptions(delimiter="|", escape='"', null_value="x"),
    CsvOptions(delimiter=" ", escape="/", null_value="\\N"),
)

CELLS = (
    "true", "TRUE", "True", "false", "fal\u017fe", "t", "1", "0", "-0", "+5", "-5", "+", "-", "--1", "1.0", " 1", "1 ",
    "2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "0" * 40 + "7", "1" * 5_000, "\uff11\uff12", "\u0661", "\U0001d7cf", "1_000", "1L", "0x10", "1e3", "1d",
    "1.5F", ".5",
    "5.", "-.5e-2", "1e400", "-1e400", "1e-400", "NaN", "nan", "-NaN", "Inf", "-Inf", "+Inf", "inf", "Infinity",
    "-Infinity", "0x1p3", "0x1.8P-1d", "0x.8p1", "0xp1", "0x1p99999", "0x1p-99999", "0x1", " 1.5\t",
    "\x0b1.5", "1.5\x7f",
    "1,5", "1,234.5", "99999999.995", "1e5", "0e123456", "abc", "", " ", "\\N", "NA",
    "null", "x", "true ", "\u00a01", "1\r", "\r", "2026-03-02\r", "19000", "-5000", "2026", "1772409600",
)  # fmt: skip
LINES = (
    "\n", "\n\n", ",", ",,", "a", '"', '""', '"""', '""""', '"\\', '"\\"', '"a\\"b"', '"a""b"', '"a"b',
    '"a"b,c', "\ufeffa",
    '"a" ,b', '"a"  x,b', '"a" "', '"a" "b",c', 'a"b,c', 'a"b"c', '"a\nb",c', "a\nb,c", "\na,b", "\r\na",
    "a\r\nb", ' "a",b',
    '"a,b', '"a,b\nc', '"\\\\"', '"\\\\",b', '"a\\\\"b",c', '"a"\\x,y"z,1', '"a"\\"b,c', '"\\n"', '\\"a,b',
    '"",b', '"" ,b',
    '"a",', '"a","', "'a','b'", "''", "'a''b'", "a;b", "a\0b", "\0a,b", "#a,b", '"a"\t,b', '"a"\t\tb,c',
    '"a"\n', '"a" \nb',
    "x" * 300_000, "," * 20_478, "," * 20_479, "," * 20_480, '"\\x' * 200, '"\\x' * 201, '"a"' * 300,
    '"' + '""' * 5_000,
)  # fmt: skip


def list_lines(options: CsvOptions) -> list[bytes | None]:
    """List lines with each cell in each column, and whole lines."""
    filler = ["true", "1", "2", "1.5", "2.50", "3", "s", "2026-03-02", "2026-03-02 01:02:03"]
    cells = (*CELLS, *(text.replace("\\t", "\t").replace("\\n", " ") for text in TEXTS))
    lines = [
        options.delimiter.join([*filler[:place], cell, *filler[place + 1 :]])
        for cell in cells
        for place in range(COLUMNS)
    ]
    whole = [line.replace(",", options.delimiter).replace('"', options.quote or '"') for line in LINES]
    further = [
        options.delimiter.join(filler) + tail for tail in ("", options.delimiter, f"{options.delimiter}1", " ", "\n1")
    ]
    bad = [b"\xff,\xe2\x82,\xf0\x9f\x98", options.delimiter.join(filler[:6]).encode() + b"\xff"]
    encoded = [line.encode("utf-8", "surrogatepass") for line in (*lines, *LINES, *whole, *further)]
    return [None, b"", *encoded, *bad]


def draw_line(draw: random.Random, options: CsvOptions) -> bytes:
    """Draw a line of cells that mostly fit their columns, or one of the characters that matter alone."""
    marks = [options.delimiter, options.quote, options.escape, '"', "\\", "a", "b", " ", "\t", "\n", ",", "1"]
    if draw.random() < 0.6:
        return "".join(draw.choices(marks, k=draw.randint(1, 14))).encode()
    number = str(draw.randint(-(10**9), 10**9))
    cells = [
        draw.choice(
            [
                draw.choice(CELLS[:-8]),
                number,
                f"{number}.{draw.randint(0, 999)}",
                draw_time(draw),
                f"{options.quote}{draw.choice(marks)}{draw_time(draw)}{options.quote}",
            ]
        )
        for _ in range(draw.randint(COLUMNS - 2, COLUMNS + 2))
    ]
    cells[8:9] = [draw.choice(["2026-03-02", draw_time(draw)])]
    return options.delimiter.join(cells).encode("utf-8", "surrogatepass")
