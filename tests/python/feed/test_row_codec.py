"""Rows come out of a chunk as exactly the objects that went in, by type and by value."""

from __future__ import annotations

import math
import random
import struct
import subprocess
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from support.comparing import assert_same
from tfos import _native
from tfos.errors import BadInputError, FeedError

COLUMNAR, PICKLED_ROWS, PICKLED_BATCHES = 0, 1, 2

DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip


def kind(chunk: bytes) -> int:
    return chunk[6]


def check(rows: list[Any], expected_kind: int | None = None) -> None:
    chunk = _native.encode_rows(rows)
    if expected_kind is not None:
        assert kind(chunk) == expected_kind
    assert_same(_native.decode_rows(chunk), rows, flags=True)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [None] * 5,
        [True, False, True],
        [0, -1, 2**63 - 1, -(2**63)],
        [0.0, -0.0, math.inf, -math.inf, 5e-324],
        [struct.unpack("<d", struct.pack("<Q", 0x7FF8000000ABCDEF))[0]],
        ["", "a", "gr\u00fc\u00df", "\U0001f600" * 3, "nul\0inside"],
        [b"", b"\0", bytes(range(256))],
        [[], []],
        [(), ()],
        [[1.5, 2.5], [3.5, 4.5]],
        [[1.5], [], [2.5, 3.5]],
        [(1, 2, 3), (), (4,)],
        [[], [True], [True, False]],
        [([1.0] * 784, 3), ([2.0] * 784, 4)],
        [(1, "a", None, b"x", 2.5, True)] * 3,
        [{"a": 1, "b": [1.0, 2.0]}, {"a": 2, "b": [3.0, 4.0]}],
        [{}, {}],
        [{"": {"deep": ((1,), [("x",)])}}] * 2,
        [["a", "b"], ["\u00fc", ""]],
        [(1, ["a", "b"]), (2, ["\u00fc", ""])],
        [(1, ["a"]), (2, []), (3, ["", "bc"])],
        [{"x": [b"a", b""]}, {"x": []}],
        [[[b"a"], [b"\0"]], [[b"c"], [b""]]],
        [(1, []), (2, [])],
        [(["x"] * 5000,)] * 2,
        [bytes(1 << 20), b"small"],
    ],
    ids=lambda rows: repr(rows)[:40],
)
def test_columnar(rows: list[Any]) -> None:
    check(rows, COLUMNAR)


Point = namedtuple("Point", "x y")


class FloatSubclass(float):
    pass


class IntSubclass(int):
    pass


class ListSubclass(list):
    pass


@pytest.mark.parametrize(
    "rows",
    [
        [1, 2.0],
        [1, True],
        [True, 1],
        [1.0, FloatSubclass(2.0)],
        [IntSubclass(1)],
        [2**63],
        [1, -(2**63) - 1],
        ["\ud800"],
        ["a", b"a"],
        [None, 1],
        [1, None],
        [[1.0, 2.0], [1.0, 2]],
        [(1.0, 2.0), [1.0, 2.0]],
        [(1, "a"), (1,)],
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{1: "a"}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [ListSubclass([1])],
        [Point(1, 2)],
        [{1, 2}],
        [bytearray(b"x")],
        [1 + 2j],
        [range(3)],
        [tuple(range(2500)) + ("x",) * 2500],
        [[["a", 1] * 40] * 60],
        [(1, ["a"]), (2, ["b", b"c"])],
        [(1, ["a"]), (2, ("b",))],
        [(1, ["a"]), (2, [None])],
        [(1, [b"a"]), (2, ["b"])],
        [(1, ["\ud800"])],
    ],
    ids=lambda rows: repr(rows)[:40],
)
def test_pickled_when_columns_would_not_be_exact(rows: list[Any]) -> None:
    check(rows, PICKLED_ROWS)


def test_nesting_beyond_the_limit() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = (deep, "x")
    check([deep, deep], PICKLED_ROWS)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_numpy_types(dtype: type) -> None:
    generator = np.random.default_rng(1)
    for shape in [(), (0,), (1,), (784,), (28, 28), (2, 0, 3), (3, 1, 2, 1)]:
        rows = [
            np.array(generator.integers(0, 2, shape) * 1.0).astype(dtype).reshape(shape)
            for _ in range(5)
        ]
        check(rows, COLUMNAR)
    check([dtype(i % 2) for i in range(10)], COLUMNAR)
    check([(dtype(1), np.ones(3, dtype), i) for i in range(4)], COLUMNAR)


def test_numpy_arrays_that_are_not_columns() -> None:
    read_only = np.arange(3)
    read_only.flags.writeable = False
    structured = np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
    for array in [
        np.arange(3).astype(">i8"),
        np.array(["a", "bc"]),
        np.array([1, "x", None], dtype=object),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.arange(3).astype(np.longlong),
        np.arange(3).astype(np.longdouble),
        structured,
        read_only,
        np.arange(6).reshape(2, 3).T,
        np.arange(10)[::2],
        np.ma.masked_array([1, 2], [True, False]),
    ]:
        rows = [array, array]
        chunk = _native.encode_rows(rows)
        assert kind(chunk) == PICKLED_ROWS
        for back in _native.decode_rows(chunk):
            assert type(back) is type(array) and back.dtype == array.dtype
            assert back.flags.writeable == array.flags.writeable
            np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_numpy_arrays_of_different_lengths(dtype: type) -> None:
    lengths = [3, 0, 5, 3, 1000, 3]
    check([np.arange(length).astype(dtype) for length in lengths], COLUMNAR)
    check([(np.ones(length, dtype), "x", length) for length in lengths], COLUMNAR)


def test_numpy_arrays_of_different_shapes_or_dtypes() -> None:
    check([np.zeros(3), np.zeros((2, 2))], PICKLED_ROWS)
    check([np.zeros((2, 2)), np.zeros(4)], PICKLED_ROWS)
    check([np.zeros((2, 2)), np.zeros((3, 2))], PICKLED_ROWS)
    check([np.zeros(3), np.zeros(())], PICKLED_ROWS)
    check([np.zeros(3), np.zeros(4, np.float32)], PICKLED_ROWS)
    check([np.zeros(3), np.zeros(4), None], PICKLED_ROWS)
    check([np.zeros(3), np.zeros(4), [0.0]], PICKLED_ROWS)
    check([np.zeros(3), np.zeros(3, np.float32)], PICKLED_ROWS)
    check([np.zeros(3), 1], PICKLED_ROWS)
    check([np.float32(1), np.float64(1)], PICKLED_ROWS)


def test_arrays_own_their_memory() -> None:
    rows = [np.arange(100_000.0), np.arange(50_000.0), "x"]  # out of band in the pickle
    chunk = bytearray(_native.encode_rows(rows))
    back = _native.decode_rows(chunk)
    chunk[:] = bytes(len(chunk))
    assert_same(back, rows, flags=True)
    back[0][0] = 5.0
    assert back[0][0] == 5.0


def test_dtype_objects_of_pickles() -> None:
    import pickle

    # Unpickling makes new dtype objects; Spark's rows come like this.
    rows = [pickle.loads(pickle.dumps(np.arange(4, dtype=np.float32))) for _ in range(3)]
    check(rows, COLUMNAR)


def test_spark_rows() -> None:
    from pyspark import sql

    check([sql.Row(a=i, b=str(i), c=[1.0, 2.0]) for i in range(4)], COLUMNAR)
    make = sql.Row("x", "y")
    check([make(i, None) for i in range(4)], COLUMNAR)
    check([sql.Row(inner=sql.Row(v=i), k=1.5) for i in range(4)], COLUMNAR)
    check([sql.Row("just", "values") for _ in range(2)], PICKLED_ROWS)
    check([sql.Row(a=1), sql.Row(b=1)], PICKLED_ROWS)
    check([sql.Row(a=1), make(1, 2)], PICKLED_ROWS)
    check([sql.Row(a=1, b=2), (1, 2)], PICKLED_ROWS)
    make_more = sql.Row("x", "y", "z")
    check([make_more(1, 2)], PICKLED_ROWS)


def test_rows_of_classes_that_only_travel_by_value() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class Local:\n    def __init__(self, v): self.v = v", namespace)
    rows = [namespace["Local"](i) for i in range(3)]
    back = _native.decode_rows(_native.encode_rows(rows))
    assert [row.v for row in back] == [0, 1, 2]


def test_what_cannot_be_pickled_says_why() -> None:
    import threading

    with pytest.raises(TypeError, match="lock"):
        _native.encode_rows([threading.Lock()])


def random_shape(rng: random.Random, depth: int) -> Any:
    """A function that makes values of one random structure."""
    leaves = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randint(-(2**63), 2**63 - 1),
        lambda: rng.choice([rng.gauss(0, 1e10), -0.0, math.nan, math.inf]),
        lambda: "".join(
            chr(rng.choice([65, 0xE9, 0x4E2D, 0x1F600])) for _ in range(rng.randint(0, 9))
        ),
        lambda: rng.randbytes(rng.randint(0, 40)),
        lambda: [rng.random() for _ in range(rng.randint(0, 5))],
        lambda: tuple(rng.randint(0, 9) for _ in range(rng.randint(0, 5))),
    ]
    choice = rng.random()
    if depth == 0 or choice < 0.5:
        if choice < 0.1:
            dtype, shape = (
                rng.choice(DTYPES),
                tuple(rng.randint(0, 3) for _ in range(rng.randint(0, 3))),
            )
            return lambda: (
                np.frombuffer(rng.randbytes(2000), np.uint8)
                .copy()[: int(np.prod(shape))]
                .astype(dtype)
                .reshape(shape)
            )
        if choice < 0.15:
            dtype = rng.choice(DTYPES)
            return lambda: dtype(rng.randint(0, 1))
        return rng.choice(leaves)
    parts = [random_shape(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    if choice < 0.65:
        return lambda: tuple(part() for part in parts)
    if choice < 0.8:
        return lambda: [part() for part in parts]
    return lambda: {f"k{i}\u00e9": part() for i, part in enumerate(parts)}


@pytest.mark.parametrize("seed", range(200))
def test_random_rows(seed: int) -> None:
    rng = random.Random(seed)
    make = random_shape(rng, 3)
    rows = [make() for _ in range(rng.choice([1, 2, 17, 100]))]
    check(rows)
    # One row of another structure anywhere must not change any other.
    rows.insert(rng.randint(0, len(rows)), random_shape(rng, 2)())
    check(rows)


def test_the_collector_is_left_as_it_was() -> None:
    import gc

    chunk = _native.encode_rows([[1.0], [2.0]])
    assert gc.isenabled()
    _native.decode_rows(chunk)
    assert gc.isenabled()
    gc.disable()
    try:
        _native.decode_rows(chunk)
        assert not gc.isenabled()
    finally:
        gc.enable()


# In a process of its own: threads and objects of other tests hold None, and let go of it, meanwhile.
LEAKS = """
import gc, sys
import numpy as np
from tfos import _native

key, text = "some key", "some value"
rows = [({key: text, "n": [1.0, 2.0]}, b"bytes", np.arange(3), np.arange(n)) for n in range(10)]
mixed = rows + [None]

def cycle():
    for batch in (rows, mixed):
        _native.decode_rows(_native.encode_rows(batch))

def counts():
    gc.collect()
    sys._clear_type_cache()  # Python 3.11 holds None in each entry that it has not used yet.
    return len(gc.get_objects()), sys.getrefcount(key), sys.getrefcount(None)

cycle()
before = counts()
for _ in range(50):
    cycle()
after = counts()
assert after[0] - before[0] < 20, (before, after)
assert after[1] == before[1], (before, after)
assert abs(after[2] - before[2]) < 25, (before, after)
"""


def test_nothing_leaks() -> None:
    done = subprocess.run([sys.executable, "-c", LEAKS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_bad_chunks_are_refused() -> None:
    with pytest.raises(BadInputError, match="shorter than a header"):
        _native.decode_rows(b"")
    chunk = bytearray(_native.encode_rows([1, 2, 3]))
    with pytest.raises(BadInputError, match="bytes arrived of"):
        _native.decode_rows(chunk[:-1])
    chunk[4] = 9
    with pytest.raises(FeedError, match="version 9"):
        _native.decode_rows(chunk)


@pytest.mark.parametrize(("row", "nodes"), [(None, 1), ((), 1), ([None] * 100, 101)])
def test_rows_without_bytes_have_a_limit(row: Any, nodes: int) -> None:
    """A few bytes can't claim objects beyond all memory."""
    most = (1 << 24) // nodes
    chunk = bytearray(_native.encode_rows([row]))
    struct.pack_into("<q", chunk, 16, most + 1)
    with pytest.raises(BadInputError, match=f"{len(chunk)} bytes for {most + 1} rows"):
        _native.decode_rows(chunk)


def test_as_many_rows_as_there_are_come_back() -> None:
    most = 1 << 24
    assert kind(_native.encode_rows([None] * most)) == COLUMNAR
    chunk = _native.encode_rows([None] * (most + 1))
    assert kind(chunk) == PICKLED_ROWS
    assert len(_native.decode_rows(chunk)) == most + 1


def test_flipped_bits_never_crash() -> None:
    rows = [([1.0, 2.0], "text", b"bytes", {"k": i}, np.arange(3), np.arange(i)) for i in range(3)]
    chunk = bytearray(_native.encode_rows(rows))
    rng = random.Random(3)
    survived = 0
    for _ in range(4000):
        bit = rng.randrange(len(chunk) * 8)
        chunk[bit // 8] ^= 1 << (bit % 8)
        try:
            assert len(_native.decode_rows(chunk)) <= 3
            survived += 1
        except (FeedError, BadInputError, UnicodeDecodeError):
            pass
        chunk[bit // 8] ^= 1 << (bit % 8)
    assert 0 < survived < 4000
    assert_same(_native.decode_rows(chunk), rows, flags=True)


class Refusing:
    """Raises ``error`` the first time that it is pickled, and none after that."""

    def __init__(self, error: BaseException):
        self.error = error
        self.pickled = 0

    def __reduce__(self) -> Any:
        self.pickled += 1
        if self.pickled == 1:
            raise self.error
        return (int, ())


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), MemoryError("none"), ValueError("of the program"), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
def test_what_pickling_raises_passes(error: BaseException) -> None:
    row = Refusing(error)
    with pytest.raises(type(error)) as raised:
        _native.encode_rows([row])
    assert raised.value is error
    assert row.pickled == 1


def test_what_neither_pickle_can_take_has_the_first_refusal_as_its_cause() -> None:
    import threading

    with pytest.raises(TypeError, match="lock") as raised:
        _native.encode_rows([threading.Lock()])
    assert isinstance(raised.value.__cause__, TypeError)
    assert raised.value.__cause__ is not raised.value


def test_a_row_that_pickle_refuses_goes_by_value() -> None:
    row = Refusing(AttributeError("pickle can't find it"))
    assert _native.decode_rows(_native.encode_rows([row])) == [0]
    assert row.pickled == 2
