"""Pickled batches become the same columns without Python as with it, or are left to Python."""

from __future__ import annotations

import itertools
import pickle
import random
import string
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Row

from tfos import _native

COLUMNAR = 0


def chunk_of(pickles: list[bytes]) -> bytes:
    """A chunk of pickled batches (docs/formats/chunk.md)."""

    def aligned(offset: int) -> int:
        return (offset + 63) // 64 * 64

    data = b"".join(pickles)
    boundaries = list(itertools.accumulate(map(len, pickles), initial=0))
    data_at = aligned(128 + 8 * len(boundaries))
    chunk = bytearray(aligned(data_at + len(data)))
    struct.pack_into("<4sHBBQqIII", chunk, 0, b"TFC1", 1, 2, 0, len(chunk), -1, 1, 128, 0)
    struct.pack_into(
        "<BBBBIIIQQQQ", chunk, 64, 4, 0, 0, 0, 128, 128, 0, len(pickles), data_at, len(data), 128
    )
    struct.pack_into(f"<{len(boundaries)}Q", chunk, 128, *boundaries)
    chunk[data_at : data_at + len(data)] = data
    return bytes(chunk)


def compare(*pickles: bytes) -> bytes | None:
    """The native columns, which are those of Python if there are any."""
    chunk = chunk_of(list(pickles))
    native = _native.columns_of_pickles(chunk)
    if native is not None:
        assert native == _native.encode_rows(_native.decode_rows(chunk))
        assert native[6] == COLUMNAR
    return native


def check(*batches: list[Any], protocols: Any = (4, 5)) -> None:
    """These rows are read natively, pickled in any way."""
    assert compare(*[CPickleSerializer().dumps(rows) for rows in batches]) is not None
    for protocol in protocols:
        assert compare(*[pickle.dumps(rows, protocol) for rows in batches]) is not None
        # The pickler written in Python uses some opcodes where the other one does not.
        assert compare(*[pickle._dumps(rows, protocol) for rows in batches]) is not None


Point = Row("x", "y")

SHARED = ([1.0, 2.0], "shared", 3)


@pytest.mark.parametrize("rows", [
    [],
    [True, False, True],
    [0, 255, 256, 65535, 65536, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63)],
    list(range(-2500, 2500)),
    [0.0, -0.0, float("inf"), 5e-324, float("nan")] * 300,
    ["", "a", "gr\u00fc\u00df", "\U0001f600" * 3, "nul\0inside", "x" * 300, "y" * 70000],
    [b"", b"\0", bytes(range(256)), b"z" * 70000],
    [[1.5, 2.5], [3.5, 4.5]],
    [[1.5], [], [2.5, 3.5]],
    [[], [True], [True, False]],
    [(1, 2, 3), (), (4,)],
    [(1, 2, 3, 4, 5)] * 4,
    [tuple(range(n)) for n in range(10)],
    [([1.0] * 784, 3), ([2.0] * 784, 4)],
    [([1.0] * 2001, 3), ([2.0] * 2001, 4)],
    [(list(range(1001)), 3), (list(range(1001)), 4)],
    [(1, "a", b"x", 2.5, True)] * 3,
    [[1, "a", b"x", 2.5, True] for _ in range(3)],
    [(1, 2, 3, 4.5), (1, 2, 3, 5.5)],
    [(1.0, 2.0, 3.0, 4), (1.0, 2.0, 3.0, 5)],
    [{"a": n, "b": [1.0, 2.0], "c": "x"} for n in range(5)],
    [{"one": n} for n in range(5)],
    [Row(a=n, b="x", c=[1, 2]) for n in range(5)],
    [Row(**{name: n for n, name in enumerate("abcdefg")}) for _ in range(5)],
    [Point(n, 2.0) for n in range(5)],
    [SHARED] * 1500,
    [(SHARED[0], SHARED[0]), (SHARED[0], [3.0, 4.0])],
    [(n, np.float32(n), np.int8(n), np.bool_(n)) for n in range(4)],
    [np.float64(n) for n in range(4)],
    [(np.arange(3.0) + n, n) for n in range(5)],
    [np.arange(n, dtype=np.int16) for n in range(5)],
    [(np.zeros((2, 3, 1, 2, 1), np.uint8), np.zeros((), np.complex64)) for _ in range(3)],
    [np.zeros((2, 0, 3))] * 2,
    [np.arange(2000.0)] * 2 + [np.arange(2000.0)],
], ids=lambda rows: repr(rows)[:40])  # fmt: skip
def test_rows_that_need_no_python(rows: list[Any]) -> None:
    check(rows)
    check(rows[:1], [], rows[1:])


def test_a_protocol_of_old() -> None:
    for rows in [
        [1, 2, 2**40],
        [1.5] * 5,
        ["a", "b"] * 3,
        [([1, 2], "x")] * 3,
        [Row(a=1, b=2.0)],
        [{"a": 1, "b": True}],
    ]:
        check(rows, protocols=(2, 3))
    check([b"bytes", b""], protocols=(3,))
    check([(np.arange(3.0), np.int8(1))], protocols=(3,))


def test_numpy_1_named_its_modules_otherwise() -> None:
    for rows in [[np.arange(3.0), np.arange(3.0)], [np.int16(1)]]:
        for protocol in (4, 5):
            pickled = pickle.dumps(rows, protocol)
            for module in (b"numeric", b"multiarray"):
                new, old = (b"numpy.%score.%s" % (dash, module) for dash in (b"_", b""))
                pickled = pickled.replace(
                    b"\x8c" + bytes([len(new)]) + new, b"\x8c" + bytes([len(old)]) + old
                )
            assert b"_core" not in pickled
            # The frame is shorter now, so without it.
            body = pickled[pickled.index(b"\x95") + 9 :]
            assert compare(b"\x80" + bytes([protocol]) + body) is not None


class Subclass(list):
    pass


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("rows", [
    [None],
    [1, None],
    [1, 2.0],
    [1, True],
    [2**63],
    [1, -(2**63) - 1],
    ["\ud800"],
    ["a", b"a"],
    [[], []],
    [(), ()],
    [{}],
    [[1.0, 2.0], [1.0, 2]],
    [(1.0, 2.0), [1.0, 2.0]],
    [(1, "a"), (1,)],
    [(1, (2, "x"))],
    [(1, None)],
    [(1, []), (2, [])],
    [{"a": 1}, {"b": 1}],
    [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    [{1: "a"}],
    [{"a": 1}, {"a": 1, "b": 2}],
    [Row(a=1), Row(b=1)],
    [Row(a=1), (1,)],
    [Row(1, 2)],
    [Row(a=Row(b=1))],
    [Subclass([1])],
    [bytearray(b"x")],
    [1 + 2j],
    [range(3)],
    [np.array(["text"])],
    [np.array([None])],
    [np.arange(3.0, dtype=">f8")],
    [np.asfortranarray(np.ones((2, 3)))],
    [np.arange(4.0), np.arange(4)],
    [np.ones((1, 2)), np.ones((2, 1))],
    [np.ones(2), np.ones((1, 2))],
    [np.array("2020-01-01", "datetime64[D]")],
    [np.zeros(2, [("a", "i4")])],
    [np.int8(1), np.int16(1)],
    [(1,) * 5000 + ("x",)],
], ids=lambda rows: repr(rows)[:40])  # fmt: skip
def test_rows_that_are_left_to_python(rows: list[Any]) -> None:
    for dumps in (CPickleSerializer().dumps, pickle.dumps, lambda rows: pickle.dumps(rows, 2)):
        assert compare(dumps(rows)) is None


def test_what_cannot_be_written_to_is_left_to_python() -> None:
    assert compare(pickle.dumps([read_only(np.arange(3.0))], 5)) is None


def test_what_is_no_list_is_left_to_python() -> None:
    for value in [(1, 2), 1, "rows", {"a": 1}]:
        assert compare(pickle.dumps(value)) is None
    assert compare(b"") is None
    assert compare(pickle.dumps([1]) + b"more") is None


def test_objects_are_never_made(tmp_path: Any) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "sprung"), "w")

    chunk = chunk_of([pickle.dumps([Trap()])])
    assert _native.columns_of_pickles(chunk) is None
    assert list(tmp_path.iterdir()) == []


# Random rows: a maker of values of one kind for each column, so that most chunks have columns.


def numbers_of(rng: random.Random) -> Callable[[], Any]:
    return rng.choice(
        [
            lambda: rng.randrange(-(2 ** rng.choice([7, 8, 15, 16, 31, 32, 62])), 2**62) >> 20,
            lambda: rng.randrange(2 ** rng.choice([4, 8, 9, 16, 17, 31, 40])),
            lambda: rng.uniform(-1, 1),
            lambda: rng.random() < 0.5,
        ]
    )


def value_of(rng: random.Random) -> Callable[[], Any]:
    number = numbers_of(rng)
    length = rng.choice([0, 1, 2, 3, 4, 5, 17, 17, 17, 1001])
    varies = rng.random() < 0.3
    size = (lambda: rng.randrange(length + 1)) if varies else (lambda: length)
    dtype = rng.choice(
        ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "O", ">i4"]
        if rng.random() < 0.2
        else ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8"]
    )
    shape = rng.choice([(), (2, 3), (1, 1, 1, 2)])
    order = "F" if rng.random() < 0.1 else "C"
    alphabet = rng.choice([string.ascii_letters, "a\u00e4\u20ac\U0001f600", "\ud800x"])
    shared = [number() for _ in range(5)]
    return rng.choice(
        [
            number,
            number,
            lambda: [number() for _ in range(size())],
            lambda: tuple(number() for _ in range(size())),
            lambda: "".join(rng.choices(alphabet, k=size())),
            lambda: rng.randbytes(size()),
            lambda: np.array(rng.random() * 3).astype(dtype)[()],
            lambda: np.ones(size()).astype(dtype),
            lambda: np.ones(shape, order=order).astype(dtype),
            lambda: shared,
            lambda: rng.choice([None, number()]),
            lambda: bytearray(2),
        ]
    )


def rows_of(rng: random.Random) -> list[Any]:
    count = rng.choice([1, 2, 3, 20])
    columns = [value_of(rng) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 6]))]
    names = [rng.choice("abc\u00e4") + str(n) for n in range(len(columns))]
    row = rng.choice(
        [
            value_of(rng),
            lambda: tuple(make() for make in columns),
            lambda: [make() for make in columns],
            lambda: dict(zip(names, (make() for make in columns))),
            lambda: Row(**dict(zip(names, (make() for make in columns)))) if columns else (),
            lambda: Row(*names)(*(make() for make in columns)) if columns else (),
        ]
    )
    rows = [row() for _ in range(count)]
    if rng.random() < 0.1:
        rows[rng.randrange(count)] = rng.choice([None, 1, "x", (), []])
    if rng.random() < 0.2:
        rows += [rng.choice(rows)] * 3
    return rows


def test_random_rows_become_the_same_columns() -> None:
    rng = random.Random(11)
    native = columnar = 0
    for _ in range(1000):
        rows = rows_of(rng)
        cut = rng.randrange(len(rows) + 1)
        dumps = rng.choice([CPickleSerializer().dumps, lambda rows: pickle.dumps(rows, 4)])
        pickles = [dumps(rows)] if rng.random() < 0.5 else [dumps(rows[:cut]), dumps(rows[cut:])]
        chunk = chunk_of(pickles)
        by_python = _native.encode_rows(_native.decode_rows(chunk))
        made = _native.columns_of_pickles(chunk)
        assert made is None or made == by_python
        native += made is not None
        columnar += by_python[6] == COLUMNAR
    # Columnar by Python alone: None and nested ones, which no dataset takes.
    assert columnar > 450
    assert native > 0.75 * columnar


def test_cut_off_pickles_are_left_to_python() -> None:
    whole = pickle.dumps([([1.0, 2.0], "text", np.arange(3), {"k": 1}) for _ in range(3)][:2], 5)
    for size in range(len(whole)):
        assert _native.columns_of_pickles(chunk_of([whole[:size]])) is None
