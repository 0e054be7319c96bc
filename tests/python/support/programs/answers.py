"""A program that answers rows in every form that results may have; in a module that nodes can import,
as a user's would be."""

from __future__ import annotations

import datetime
import decimal

import numpy as np


def answer(ctx):
    """Answers each batch as the function of ANSWERS does that its first row names."""
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(ctx.args["batch"])
        if rows:
            ctx.feed.batch_results(ANSWERS[rows[0].answer]([int(row.id) for row in rows]))


def _tensors(ids):
    import tensorflow as tf

    return {"number": tf.constant(ids), "text": tf.constant([str(n) for n in ids])}


def _rows(ids):
    from pyspark.sql import Row  # Most nodes go without, which makes their start shorter.

    return [Row(text=str(n), number=n) for n in ids]


def _ragged_tensor(ids):
    import tensorflow as tf

    return {"numbers": tf.ragged.constant([[n] * (n % 3) for n in ids], tf.float32)}


#: What to make of the ids of some rows: the results, in every form that they may have.
ANSWERS = {
    # number long, text string
    "tuples": lambda ids: [(n, str(n)) for n in ids],
    "lists": lambda ids: [[n, str(n)] for n in ids],
    "Rows": _rows,
    "dicts": lambda ids: [{"text": str(n), "number": n} for n in ids],
    "dict of lists": lambda ids: {"number": ids, "text": [str(n) for n in ids]},
    "dict of arrays": lambda ids: {
        "text": np.array([str(n) for n in ids]),
        "number": np.array(ids, np.int16),
    },
    "dict of objects": lambda ids: {
        "text": np.array([str(n).encode() for n in ids], object),
        "number": np.array(ids, "u8"),
    },
    "tensors": _tensors,
    "rows of different kinds": lambda ids: [
        (n, str(n)) if n % 2 else {"number": np.int8(n), "text": str(n)} for n in ids
    ],
    # number long
    "values": lambda ids: ids,
    "NumPy values": lambda ids: [np.int32(n) for n in ids],
    "array": lambda ids: np.array(ids),
    "tuples of one": lambda ids: [(n,) for n in ids],
    "dicts of one": lambda ids: [{"number": n} for n in ids],
    "column of one": lambda ids: {"number": np.array(ids)},
    "generator": lambda ids: (n for n in ids),
    # a double, b double
    "pairs": lambda ids: [(float(n), n / 2) for n in ids],
    "lists of numbers": lambda ids: [[float(n), n / 2] for n in ids],
    "rows of an array": lambda ids: np.array([[n, n / 2] for n in ids], np.float32),
    # numbers array<float>
    "arrays": lambda ids: [np.full(n % 3, n, np.float32) for n in ids],
    "lists of any length": lambda ids: [[float(n)] * (n % 3) for n in ids],
    "lists in a column": lambda ids: {"numbers": [[n] * (n % 3) for n in ids]},
    "ragged tensor": _ragged_tensor,
    # words array<string>
    "lists of words": lambda ids: [[str(n)] * (n % 3) for n in ids],
    "words in tuples": lambda ids: [([str(n)] * (n % 3),) for n in ids],
    "words in a column": lambda ids: {"words": [[str(n)] * (n % 3) for n in ids]},
    # For types: a column `value`.
    "bool": lambda ids: [n % 2 == 0 for n in ids],
    "float": lambda ids: [n / 2 for n in ids],
    "half": lambda ids: np.array(ids, np.float16) / 2,
    "str": lambda ids: [f"\u00fc{n}" for n in ids],
    "bytes": lambda ids: [b"\xff" * n for n in ids],
    "UTF-8": lambda ids: [f"\u00fc{n}".encode() for n in ids],
    "date": lambda ids: [datetime.date(1970, 1, 1) + datetime.timedelta(n) for n in ids],
    "datetime": lambda ids: [EPOCH + datetime.timedelta(seconds=n) for n in ids],
    "aware datetime": lambda ids: [
        EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(seconds=n) for n in ids
    ],
    "datetime64": lambda ids: np.array(ids, "M8[s]"),
    "microseconds": lambda ids: np.array(ids) * 1_000_000,
    "decimal": lambda ids: [decimal.Decimal(n) / 4 for n in ids],
    "now and then None": lambda ids: [n if n % 3 else None for n in ids],
    "None": lambda ids: [None for n in ids],
    "float and None": lambda ids: {"value": [n / 2 if n % 3 else None for n in ids]},
    "lists of str": lambda ids: [[str(n), None] for n in ids],
    "pairs of bytes": lambda ids: np.array([[str(n).encode(), b"x"] for n in ids], object),
    "matrices": lambda ids: np.array(ids, np.float64).reshape(-1, 1, 1) + np.zeros((2, 3)),
    "matrices and None": lambda ids: [np.full((2, 3), n) if n % 3 else None for n in ids],
    "dates in arrays": lambda ids: np.array([[n, n + 1] for n in ids]),
    "one null": lambda ids: [None if n == 7 else n for n in ids],
    "null in an array": lambda ids: [[n, None] for n in ids],
    "large": lambda ids: [1 << 40 for n in ids],
    "huge": lambda ids: [1 << 70 for n in ids],
    "mixed": lambda ids: [n if n % 2 else str(n) for n in ids],
    "complex": lambda ids: np.array(ids, np.complex64),
    "objects": lambda ids: [{n} for n in ids],
    "structs": lambda ids: [{"value": {"a": n}} for n in ids],
    "too many": lambda ids: ids + [0],
}
EPOCH = datetime.datetime(1970, 1, 1)
