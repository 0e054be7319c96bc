"""Every SQL type as tests feed it to nodes, and as results of nodes have it."""

from __future__ import annotations

import datetime
import decimal

import numpy as np

EPOCH = datetime.datetime(1970, 1, 1)

#: SQL type: an expression over id, and what arrives for id n.
TYPES = {
    "boolean": ("id % 3 = 0", lambda n: np.bool_(n % 3 == 0)),
    "tinyint": ("cast(id - 20 as tinyint)", lambda n: np.int8(n - 20)),
    "smallint": ("cast(id * 800 as smallint)", lambda n: np.int16(n * 800)),
    "int": ("cast(id - 20 as int)", lambda n: np.int32(n - 20)),
    "bigint": ("id + 1 - 9223372036854775807", lambda n: np.int64(n + 1 - 2**63 + 1)),
    "float": ("cast(id / 7D as float)", lambda n: np.float32(n / 7)),
    "double": ("cast(id as double) / 7D", lambda n: np.float64(n) / 7),
    "date": ("date_add(date'1970-01-01', cast(id as int) - 5)", lambda n: np.int32(n - 5)),
    "timestamp": ("timestamp_micros(id * 1000001 - 7)", lambda n: np.int64(n * 1000001 - 7)),
    "timestamp_ntz": (
        "timestamp_ntz'1970-01-01 00:00:01' + make_dt_interval(0, 0, 0, id)",
        lambda n: np.int64((n + 1) * 1_000_000),
    ),
    "decimal(20,2)": ("cast(id as decimal(20,2)) / 4", lambda n: np.float64(n / 4)),
    "string": (
        "concat(repeat('\u00df', cast(id % 3 as int)), id)",
        lambda n: "\u00df" * (n % 3) + str(n),
    ),
    "binary": ("cast(repeat('x', cast(id % 5 as int)) as binary)", lambda n: b"x" * (n % 5)),
    "array<float>": (
        "array(cast(id as float), 0.5F, 2F)",
        lambda n: np.array([n, 0.5, 2], np.float32),
    ),
    "array<boolean>": ("array(id = 1, true)", lambda n: np.array([n == 1, True])),
    "array<date>": ("array(date'1970-01-03')", lambda n: np.array([2], np.int32)),
    "array<decimal(3,1)>": ("array(0.5BD, 10.0BD)", lambda n: np.array([0.5, 10.0])),
    "array<bigint> of any length": ("sequence(1L, id + 1)", lambda n: np.arange(1, n + 2)),
    "array<double> without elements": ("cast(array() as array<double>)", lambda n: np.zeros(0)),
    "array<string>": (
        "array(repeat('\u00df', cast(id % 3 as int)), 'x')",
        lambda n: ["\u00df" * (n % 3), "x"],
    ),
    "array<string> of any length": (
        "transform(sequence(0, id % 4), i -> repeat('y', cast(i as int)))",
        lambda n: ["y" * i for i in range(n % 4 + 1)],
    ),
    "array<string> without elements": ("cast(array() as array<string>)", lambda n: []),
    "array<binary> of any length": (
        "array_repeat(cast(repeat('x', cast(id % 5 as int)) as binary), cast(id % 3 as int))",
        lambda n: [b"x" * (n % 5)] * (n % 3),
    ),
    "array<array<string>>": (
        "array(array('a', string(id)), array('c', 'd'))",
        lambda n: [["a", str(n)], ["c", "d"]],
    ),
    "array<array<int>>": (
        "array(array(1, cast(id as int)), array(3, 4), array(5, 6))",
        lambda n: np.array([[1, n], [3, 4], [5, 6]], np.int32),
    ),
}

#: (declared type, answer, what is collected for n)
RESULT_TYPES = [
    ("boolean", "bool", lambda n: n % 2 == 0),
    ("tinyint", "values", lambda n: n),
    ("smallint", "array", lambda n: n),
    ("int", "NumPy values", lambda n: n),
    ("float", "float", lambda n: n / 2),
    ("float", "half", lambda n: n / 2),
    ("double", "values", lambda n: n),
    ("double", "array", lambda n: n),
    ("string", "str", lambda n: f"\u00fc{n}"),
    ("string", "UTF-8", lambda n: f"\u00fc{n}"),
    ("binary", "bytes", lambda n: b"\xff" * n),
    ("date", "date", lambda n: datetime.date(1970, 1, 1) + datetime.timedelta(n)),
    ("date", "array", lambda n: datetime.date(1970, 1, 1) + datetime.timedelta(n)),
    ("timestamp_ntz", "datetime", lambda n: EPOCH + datetime.timedelta(seconds=n)),
    ("timestamp_ntz", "datetime64", lambda n: EPOCH + datetime.timedelta(seconds=n)),
    ("timestamp_ntz", "microseconds", lambda n: EPOCH + datetime.timedelta(seconds=n)),
    ("decimal(10,3)", "decimal", lambda n: decimal.Decimal(n) / 4),
    ("int", "now and then None", lambda n: n if n % 3 else None),
    ("int", "None", lambda n: None),
    ("array<int>", "None", lambda n: None),
    ("double", "float and None", lambda n: n / 2 if n % 3 else None),
    ("array<string>", "lists of str", lambda n: [str(n), None]),
    ("array<string>", "pairs of bytes", lambda n: [str(n), "x"]),
    ("array<binary>", "pairs of bytes", lambda n: [str(n).encode(), b"x"]),
    ("array<array<float>>", "matrices", lambda n: [[n] * 3] * 2),
    ("array<array<double>>", "matrices and None", lambda n: [[n] * 3] * 2 if n % 3 else None),
    (
        "array<date>",
        "dates in arrays",
        lambda n: [datetime.date(1970, 1, 1) + datetime.timedelta(n + k) for k in (0, 1)],
    ),
    ("array<int>", "null in an array", lambda n: [n, None]),
]
