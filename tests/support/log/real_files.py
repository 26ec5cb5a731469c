"""Kinds of files as people have them, and what `cutover init` has to find in each."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

SHOPS = ("Oslo", "Bergen", "Narvik")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """File, and what `init` has to find in it."""

    name: str
    text: str | bytes
    event_time: str
    time_format: str = "iso"
    log_time: str | None = None
    key: str = "shop"
    types: Mapping[str, str] = field(default_factory=dict)  # of some columns
    measures: tuple[str, ...] = ("events", "total", "largest")
    records: int = 6
    malformed: int = 0
    first: Mapping[str, object] = field(default_factory=dict)  # some members of the first message
    notes: tuple[str, ...] = ()  # parts of what is printed
    stated_format: str | None = None


def join_rows(header: str, *rows: str) -> str:
    return "\n".join((header, *rows)) + "\n"


def make_rows(row: str, count: int = 6) -> list[str]:
    """Make rows with the number `n`, a shop, and a day of May 2024."""
    return [row.format(n=n, shop=SHOPS[n % 3], day=n + 1, minute=5 * n) for n in range(count)]


def make_records(count: int = 6) -> list[dict[str, object]]:
    return [
        {"id": n, "shop": SHOPS[n % 3], "amount": 2 * n, "at": f"2024-05-01T10:{5 * n:02}:00Z"} for n in range(count)
    ]


AT = "2024-05-01T10:{minute:02}:00Z"
JSON_LINES = "\n".join(map(json.dumps, make_records()))
FEATURES = [
    {
        "type": "Feature",
        "id": f"q{n}",
        "properties": {"shop": SHOPS[n % 3], "amount": n, "time": 1_714_557_600_000 + 60_000 * n},
        "geometry": {"type": "Point", "coordinates": [10.5 + n, 59.9, 7]},
    }
    for n in range(6)
]
TIMES = range(1_714_557_600_000, 1_714_557_600_006)
HITS = [{"_index": "sales", "_id": f"d{n}", "_source": record} for n, record in enumerate(make_records())]

KINDS = {
    "semicolons, decimal commas and a byte order mark": Kind(
        name="a.csv",
        text="\ufeff" + join_rows("shop;cost;at", *make_rows("{shop};{n},5{n};" + AT)),
        event_time="at",
        types={"cost": "double"},
        first={"cost": 0.50},
        notes=("cells separated by semicolons", '"0,50" as 0.50'),
    ),
    "tabs": Kind(name="a.tsv", text=join_rows("shop\tamount\tat", *make_rows("{shop}\t{n}\t" + AT)), event_time="at"),
    "tabs in a file called csv": Kind(
        name="a.csv", text=join_rows("shop\tamount\tat", *make_rows("{shop}\t{n}\t" + AT)), event_time="at"
    ),
    "bars": Kind(name="a.txt", text=join_rows("shop|amount|at", *make_rows("{shop}|{n}|" + AT)), event_time="at"),
    "Excel's line of the delimiter": Kind(
        name="a.csv",
        text="sep=;\r\n" + join_rows("shop;amount;at", *make_rows("{shop};{n};" + AT)),
        event_time="at",
    ),
    "names with blanks, signs and accents": Kind(
        name="a.csv",
        text=join_rows("Shop Name,Beløp (kr),Created Date,,2nd", *make_rows("{shop},{n},2024-05-0{day},x,1.5")),
        event_time="Created_Date",
        key="Shop_Name",
        types={"Belop_kr": "bigint", "column_4": "string", "column_2nd": "double"},
        notes=("Column `Created Date` is the field `Created_Date`", "Column `2nd` is the field `column_2nd`"),
    ),
    "names that differ by case, or are ours": Kind(
        name="a.csv",
        text=join_rows("shop,Amount,amount,_class,at", *make_rows("{shop},{n},{n},x," + AT)),
        event_time="at",
        types={"Amount": "bigint", "amount_2": "bigint", "class": "string"},
    ),
    "blanks after commas": Kind(
        name="a.csv",
        text=join_rows("shop, amount, ratio, at", *make_rows("{shop}, {n}, 0.{n}, " + AT)),
        event_time="at",
        types={"amount": "bigint", "ratio": "double"},
    ),
    "missing values in words": Kind(
        name="a.csv",
        text=join_rows("shop,amount,at", *make_rows("{shop},{n}," + AT, 4), "NA,NA,2024-05-02T00:00:00Z", "b,-,NULL"),
        event_time="at",
        types={"amount": "bigint"},
        malformed=1,
        notes=('null for 2 cells such as "NA" (line 6)',),
    ),
    "grouped digits": Kind(
        name="a.csv",
        text=join_rows("shop,amount,at", 'a,"1,234.50",2024-05-01', 'b,"12,000",2024-05-02', "a,7,2024-05-03"),
        event_time="at",
        types={"amount": "double"},
        first={"amount": 1234.5},
        records=3,
    ),
    "points that group and commas that divide": Kind(
        name="a.csv",
        text=join_rows("shop;total cost;at", "a;1.234,50;2024-05-01", "b;12.000;2024-05-02", "a;7;2024-05-03"),
        event_time="at",
        types={"total_cost": "double"},
        first={"total_cost": 1234.5},
        records=3,
    ),
    "a comma of which nothing shows what it is": Kind(
        name="a.csv",
        text=join_rows("shop;cost;at", "a;1,234;2024-05-01", "b;2,345;2024-05-02"),
        event_time="at",
        types={"cost": "string"},
        measures=("events",),
        records=2,
        notes=('"1,234" (line 2) is 1.234 or 1234',),
    ),
    "dates with the day first": Kind(
        name="a.csv",
        text=join_rows("shop,amount,when", *make_rows("{shop},{n},{minute:02}.05.2024", 6)[1:], "a,1,13.06.2024"),
        event_time="when",
        time_format="dd.MM.yyyy",
        types={"when": "timestamp"},
    ),
    "dates with the month first, shown by the last record": Kind(
        name="a.csv",
        text=join_rows(
            "shop,amount,when", *["a,1,05/01/2024 09:00", "b,2,05/02/2024 09:00"] * 3, "b,2,05/13/2024 09:00"
        ),
        event_time="when",
        time_format="MM/dd/yyyy HH:mm",
        records=7,
    ),
    "dates with one digit": Kind(
        name="a.csv",
        text=join_rows("shop,amount,when", "a,1,5/9/2024 9:05", "b,2,5/13/2024 10:05", "a,3,12/1/2024 0:05"),
        event_time="when",
        time_format="M/d/yyyy H:mm",
        records=3,
    ),
    "dates whose order shows in the order of records": Kind(
        name="a.csv",
        text=join_rows("shop,amount,when", *[f"{SHOPS[n % 3]},{n},0{1 + n % 2}/0{1 + n // 2}/2024" for n in range(6)]),
        event_time="when",
        time_format="dd/MM/yyyy",
    ),
    "dates with AM and PM, ambiguous": Kind(
        name="a.csv",
        text=join_rows("shop,amount,created", "a,1,05/01/2024 10:00:00 AM", "b,2,05/01/2024 10:05:00 PM"),
        event_time="created",
        time_format="MM/dd/yyyy hh:mm:ss a",
        records=2,
        notes=("no value shows that it is `MM/dd/yyyy hh:mm:ss a` and not `dd/MM/yyyy hh:mm:ss a`",),
    ),
    "an ambiguous date that the user states": Kind(
        name="a.csv",
        text=join_rows("shop,amount,created", "a,1,05/01/2024", "b,2,05/02/2024"),
        event_time="created",
        time_format="dd/MM/yyyy",
        stated_format="dd/MM/yyyy",
        records=2,
    ),
    "compact dates": Kind(
        name="a.csv",
        text=join_rows("shop,amount,date", *make_rows("{shop},{n},2024050{day}")),
        event_time="date",
        time_format="yyyyMMdd",
    ),
    "dates with points of a single day": Kind(
        name="a.csv",
        text=join_rows("Datum;shop;Kurs", *make_rows("01.03.2024;{shop};{n},25")),
        event_time="Datum",
        time_format="dd.MM.yyyy",
        notes=("no value shows that it is `dd.MM.yyyy`",),
    ),
    "named months": Kind(
        name="a.csv",
        text=join_rows("shop,amount,date", *make_rows("{shop},{n},0{day}-May-2024 10:{minute:02}")),
        event_time="date",
        time_format="dd-MMM-yyyy HH:mm",
    ),
    "the log of a web server": Kind(
        name="a.csv",
        text=join_rows("host,bytes,time", *make_rows("{shop},1{n},01/May/2024:10:{minute:02}:00 +0000")),
        event_time="time",
        time_format="dd/MMM/yyyy:HH:mm:ss XX",
        key="host",
    ),
    "times with a comma before the fraction": Kind(
        name="a.csv",
        text=join_rows("shop;amount;at", *make_rows("{shop};{n};2024-05-01 10:{minute:02}:00,123")),
        event_time="at",
        time_format="yyyy-MM-dd HH:mm:ss,SSSSSSSSS",
    ),
    "Unix seconds": Kind(
        name="a.csv",
        text=join_rows("shop,amount,ts", *make_rows("{shop},{n},171455760{n}")),
        event_time="ts",
        time_format="seconds",
    ),
    "one series": Kind(
        name="a.csv",
        text=join_rows("timestamp,value", *make_rows("2014-07-01 00:{minute:02}:00,1{n}")),
        event_time="timestamp",
        key="series",
        notes=("they are one series",),
    ),
    "one series with the number of the row": Kind(
        name="a.csv",
        text=join_rows(",timestamp,value", *make_rows("{n},2014-07-01 00:{minute:02}:00,0.{n}")),
        event_time="timestamp",
        key="series",
        types={"column_1": "bigint", "value": "double"},
    ),
    "identifiers that repeat, and no text": Kind(
        name="a.csv",
        text=join_rows("trip_id,station_id,day,riders", *[f"{n},{n % 2},2024-05-0{1 + n},{3 * n}" for n in range(6)]),
        event_time="day",
        key="station_id",
        types={"riders": "bigint"},
    ),
    "stations with leading zeros, and measures with more digits than doubles": Kind(
        name="a.csv",
        text=join_rows(
            "STATION,DATE,place_id,device_level,balance",
            *(f"0100109999{n % 3},2024-05-0{n + 1},61.{n}0,{n}.5,123456789012345678.{n}1" for n in range(6)),
        ),
        event_time="DATE",
        key="STATION",
        types={"STATION": "string", "place_id": "string", "balance": "double"},
        measures=("events", "average", "largest"),
        notes=('`balance`: double, which rounds "123456789012345678.01" (line 2)',),
    ),
    "an integer that becomes a fraction after 1,000 records": Kind(
        name="a.csv",
        text=join_rows(
            "shop,amount,at", *[f"{SHOPS[n % 3]},{n},2024-05-01" for n in range(1_200)], "a,12.5,2024-05-02"
        ),
        event_time="at",
        types={"amount": "double"},
        records=1_201,
    ),
    "the newest record first": Kind(
        name="a.csv",
        text=join_rows("shop,amount,at", *reversed(make_rows("{shop},{n}," + AT))),
        event_time="at",
        log_time="at",
        notes=("the newest one first",),
    ),
    "records of one shop after another": Kind(
        name="a.csv",
        text=join_rows("shop,amount,at", *(f"{shop},{n},2024-05-0{1 + n}" for shop in SHOPS for n in range(6))),
        event_time="at",
        log_time="at",
        records=18,
        notes=("not in the order of time",),
    ),
    "quoted cells with line breaks": Kind(
        name="a.csv",
        text=join_rows("shop,note,amount,at", *make_rows('"{shop}","a, ""b""\n{n}",{n},' + AT)),
        event_time="at",
        types={"note": "string"},
    ),
    "a compressed file": Kind(
        name="a.csv.gz",
        text=gzip.compress(join_rows("shop,amount,at", *make_rows("{shop},{n}," + AT)).encode()),
        event_time="at",
    ),
    "an array": Kind(name="a.json", text=json.dumps(make_records()), event_time="at", notes=("a JSON array",)),
    "an array over several lines": Kind(
        name="a.json", text=json.dumps(make_records(), indent=2), event_time="at", first={"shop": "Oslo"}
    ),
    "objects over several lines": Kind(
        name="a.json",
        text="\n".join(json.dumps(record, indent=2) for record in make_records()),
        event_time="at",
        notes=("span several lines",),
    ),
    "the answer of an API": Kind(
        name="a.json",
        text=json.dumps({"meta": {"count": 6, "pages": [1]}, "data": make_records(), "links": [{"next": None}]}),
        event_time="at",
        notes=("the array `data`",),
    ),
    "the answer of an API, one level below": Kind(
        name="a.json", text=json.dumps({"response": {"docs": make_records()}}), event_time="at"
    ),
    "GeoJSON": Kind(
        name="a.geojson",
        text=json.dumps({"type": "FeatureCollection", "features": FEATURES}),
        event_time="time",
        time_format="millis",
        types={"longitude": "double", "id": "string"},
        first={"id": "q0", "longitude": 10.5, "latitude": 59.9},
        notes=("the properties of each feature",),
    ),
    "GeoJSON of which records and collection have a field of one name": Kind(
        name="a.geojson",
        text=json.dumps(
            {
                "type": "FeatureCollection",
                "features": [{"properties": {"type": "quake", "time": n, "mag": n}} for n in TIMES],
            }
        ),
        event_time="time",
        time_format="millis",
        key="type",
        measures=("events", "average", "largest"),
        first={"type": "quake"},
    ),
    "a time inside of objects": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps(
                {
                    "data": {"shop": row["shop"], "order": {"amount": row["amount"], "at": row["at"]}},
                    "DATA": {"shop": "none"},
                    "detail": {"code": 1} if n % 2 else "none",
                }
            )
            for n, row in enumerate(make_records())
        ),
        event_time="data_order_at",
        key="data_shop",
        types={"data_order_amount": "bigint"},
        notes=(
            "No field at the top of a record is a time",
            "Left out: `DATA_shop_2` (its place differs from `data` only by case)",
            "Left out: `detail_code` (`detail` is an object in some records alone)",
        ),
    ),
    "hits of Elasticsearch": Kind(
        name="a.json",
        text=json.dumps({"took": 3, "hits": {"total": {"value": 6}, "hits": HITS}}),
        event_time="at",
        first={"id": 0, "shop": "Oslo"},
    ),
    "numbers in quotes": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps(record | {"amount": str(record["amount"]), "zip": f"0{n}50", "is_new": "true"})
            for n, record in enumerate(make_records())
        ),
        event_time="at",
        types={"amount": "decimal(18,0)", "zip": "string", "is_new": "string"},
    ),
    "change events": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps(
                {"before": None, "after": row, "source": {"ts_ms": moment}, "op": "c" if row else "d", "ts_ms": 1}
            )
            for moment, row in zip(
                range(1_714_557_600_000, 1_714_558_200_000, 100_000),
                [*({"id": n, "shop": SHOPS[n % 3], "total": f"{n}.50"} for n in range(5)), None],
                strict=True,
            )
        ),
        event_time="changed_at",
        time_format="millis",
        types={"total": "decimal(18,2)", "op": "string", "id": "bigint"},
        notes=("Change events: deletions are filtered",),
    ),
    "change events of rows with a time of their own": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps({"payload": {"before": None, "after": row, "op": "u", "ts_ms": 1_714_557_600_000}})
            for row in ({"created": 1_714_557_600_000_000, "shop": shop, "amount": 1.5} for shop in (*SHOPS, *SHOPS))
        ),
        event_time="changed_at",
        time_format="millis",
        types={"created": "bigint", "amount": "double"},
    ),
    "names of JSON with blanks, and ours": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps({"Shop Name": SHOPS[n % 3], "Created Date": f"2024-05-0{1 + n}", "Beløp": n, "_class": "x"})
            for n in range(6)
        ),
        event_time="Created_Date",
        key="Shop_Name",
        types={"Belop": "bigint", "class": "string"},
        notes=("Column `Created Date` is the field `Created_Date`",),
    ),
    "identifiers in quotes, without `id` in their names": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps({"customer": str(n % 2), "amount": str(n), "at": f"2024-05-0{1 + n}"}) for n in range(6)
        ),
        event_time="at",
        key="customer",
        types={"customer": "string", "amount": "decimal(18,0)"},
    ),
    "numbers with signs of money": Kind(
        name="a.csv",
        text=join_rows("shop,price,at", *make_rows("{shop},$1{n}.50," + AT)),
        event_time="at",
        types={"price": "string"},
        measures=("events",),
        notes=('string, since "$10.50" is no number',),
    ),
    "a date and a time of day": Kind(
        name="a.csv",
        text=join_rows("shop,amount,date,time", *make_rows("{shop},{n},2024-05-0{day},10:{minute:02}")),
        event_time="date",
        notes=('"10:00" is a time without a date',),
    ),
    "a number that is in quotes in some records": Kind(
        name="a.jsonl",
        text="\n".join(
            json.dumps(record | {"amount": str(record["amount"]) if n % 2 else record["amount"]})
            for n, record in enumerate(make_records())
        ),
        event_time="at",
        types={"amount": "decimal(18,0)"},
    ),
    "records without the time, and one beyond the limits": Kind(
        name="a.jsonl",
        text=JSON_LINES + '\n{"shop": "Oslo", "amount": 1}\n{"shop": "Oslo", "amount": NaN}\n',
        event_time="at",
        records=8,
        malformed=2,
    ),
    "fields that only some records have": Kind(
        name="a.jsonl",
        text=JSON_LINES + '\n{"shop": "Oslo", "coupon": "x", "at": "2024-05-02T00:00:00Z"}\n',
        event_time="at",
        types={"coupon": "string"},
        records=7,
    ),
}
