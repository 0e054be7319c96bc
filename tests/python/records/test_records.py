"""TFRecord files and tf.Example against TensorFlow itself: each reads what the other wrote."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from support.waiting import wait_for
from tfos import _native, records
from tfos.errors import BadInputError
from tfos.node import files
from tfos.records import formats, listing

KINDS = {
    "int": ("int64_list", tf.train.Int64List),
    "float": ("float_list", tf.train.FloatList),
    "bytes": ("bytes_list", tf.train.BytesList),
}
COMPRESSIONS = ["", "GZIP", "ZLIB"]
#: The columns of `random_features`.
SCHEMA = pa.schema(
    [
        ("bytes_list", pa.list_(pa.binary())),
        ("bytes_one", pa.binary()),
        ("float_fixed", pa.list_(pa.float32(), 3)),
        ("float_list", pa.list_(pa.float32())),
        ("float_one", pa.float32()),
        ("int_list", pa.list_(pa.int64())),
        ("int_one", pa.int64()),
        ("text", pa.string()),
    ]
)


def feature(kind, values):
    field, values_type = KINDS[kind]
    return tf.train.Feature(**{field: values_type(value=values)})


def example(**features):
    return tf.train.Example(
        features=tf.train.Features(
            feature={name: feature(*value) for name, value in features.items()}
        )
    )


def random_features(source):
    """Features of an example, and the row that they make."""
    some = source.randrange
    integers = [some(-(1 << bits), 1 << bits) for bits in (some(64) for _ in range(some(6)))]
    floats = np.float32([source.gauss(0, 1e3) for _ in range(some(6))]).tolist()
    blobs = [source.randbytes(some(200)) for _ in range(some(4))]
    text = "".join(source.choice("aä€😀") for _ in range(some(20)))
    features = {
        "bytes_list": ("bytes", blobs),
        "bytes_one": ("bytes", [source.randbytes(some(5))]),
        "float_fixed": ("float", [1, 2, some(100)]),
        "float_list": ("float", floats),
        "float_one": ("float", [some(100)]),
        "int_list": ("int", integers),
        "int_one": ("int", [some(1 << 63)]),
        "text": ("bytes", [text.encode()]),
    }
    row = {
        name: values
        if name in ("bytes_list", "float_fixed", "float_list", "int_list")
        else values[0]
        for name, (_, values) in features.items()
    }
    row["text"] = text
    for name in list(features):
        if some(5) == 0:
            del features[name]
            row[name] = None
    return features, row


@pytest.fixture(scope="module")
def rows():
    source = random.Random(7)
    return [random_features(source) for _ in range(300)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_reads_what_tensorflow_wrote(tmp_path, rows, compression):
    path = str(tmp_path / "f.tfrecord")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for features, _ in rows:
            writer.write(example(**features).SerializeToString())
    batches = list(records.read(path, SCHEMA, compression=compression, batch_rows=70))
    assert [batch.num_rows for batch in batches] == [70, 70, 70, 70, 20]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == SCHEMA
    assert [row for batch in batches for row in batch.to_pylist()] == [row for _, row in rows]
    assert records.verify(path, compression=compression)["records"] == len(rows)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tensorflow_reads_what_was_written(tmp_path, rows, compression):
    path = str(tmp_path / "f.tfrecord")
    table = pa.Table.from_pylist([row for _, row in rows], schema=SCHEMA)
    assert records.write(path, [table], compression=compression) == len(rows)
    read = [record.numpy() for record in tf.data.TFRecordDataset(path, compression)]
    assert read == [
        example(**features).SerializeToString(deterministic=True) for features, _ in rows
    ]
    assert read == list(records.read_records(path, compression=compression))


def test_files_are_the_same_byte_for_byte(tmp_path, rows):
    serialized = [example(**features).SerializeToString(deterministic=True) for features, _ in rows]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in serialized:
            writer.write(record)
    batch = pa.RecordBatch.from_pylist([row for _, row in rows], schema=SCHEMA)
    records.write(tmp_path / "ours", [batch.slice(0, 100), batch.slice(100)])
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert list(records.records_of((tmp_path / "ours").read_bytes())) == serialized
    records.write_records(tmp_path / "again", serialized)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_decode_and_encode_in_memory(rows):
    serialized = [example(**features).SerializeToString(deterministic=True) for features, _ in rows]
    batch = records.decode(serialized, SCHEMA)
    assert batch.to_pylist() == [row for _, row in rows]
    assert records.encode(batch).to_pylist() == serialized
    with pytest.raises(BadInputError, match="record 1: the record is not a valid tf.Example"):
        records.decode([serialized[0], b"\x09"], SCHEMA)


def test_agrees_with_parse_example():
    source = random.Random(3)
    serialized = [
        example(
            x=("float", [source.random() for _ in range(5)]), y=("int", [source.randrange(9)])
        ).SerializeToString()
        for _ in range(50)
    ]
    parsed = tf.io.parse_example(
        serialized,
        {"x": tf.io.FixedLenFeature([5], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)},
    )
    batch = records.decode(
        serialized, pa.schema([("x", pa.list_(pa.float32(), 5)), ("y", pa.int64())])
    )
    assert (batch["x"].flatten().to_numpy().reshape(-1, 5) == parsed["x"].numpy()).all()
    assert (batch["y"].to_numpy() == parsed["y"].numpy()).all()


@pytest.mark.parametrize(
    "element, kind, values",
    [
        (pa.bool_(), "int", [True, False]),
        (pa.int8(), "int", [-128, 127]),
        (pa.int16(), "int", [-(1 << 15), 5]),
        (pa.int32(), "int", [-(1 << 31), 6]),
        (pa.int64(), "int", [-(1 << 63), (1 << 63) - 1]),
        (pa.float32(), "float", [0.5, -1.5]),
        (pa.float64(), "float", [0.5, -1.5]),
        (pa.string(), "bytes", ["ä", ""]),
        (pa.binary(), "bytes", [b"\xff", b""]),
    ],
    ids=str,
)
def test_every_type(element, kind, values):
    raw = [
        value.encode()
        if isinstance(value, str)
        else int(value)
        if isinstance(value, bool)
        else value
        for value in values
    ]
    serialized = example(
        fixed=(kind, raw), list=(kind, raw), one=(kind, raw[:1])
    ).SerializeToString(deterministic=True)
    batch = records.decode(
        [serialized],
        pa.schema([("one", element), ("list", pa.list_(element)), ("fixed", pa.list_(element, 2))]),
    )
    assert batch.to_pylist() == [{"one": values[0], "list": values, "fixed": values}]
    assert records.encode(batch).to_pylist() == [serialized]
    if pa.types.is_string(element) or pa.types.is_binary(element):
        large = batch.cast(
            pa.schema(
                [
                    (name, pa.large_binary() if name == "one" else batch.schema.field(name).type)
                    for name in batch.schema.names
                ]
            )
        )
        assert records.encode(large).to_pylist() == [serialized]


def test_sequence_examples():
    steps = tf.train.FeatureList(feature=[feature("float", [1, 2]), feature("float", [3])])
    words = tf.train.FeatureList(feature=[feature("bytes", [b"x"])])
    serialized = tf.train.SequenceExample(
        context=example(id=("int", [7])).features,
        feature_lists=tf.train.FeatureLists(feature_list={"steps": steps, "words": words}),
    ).SerializeToString(deterministic=True)
    schema = pa.schema(
        [
            ("words", pa.list_(pa.list_(pa.string()))),
            ("id", pa.int64()),
            ("steps", pa.list_(pa.list_(pa.float32()))),
        ]
    )
    batch = records.decode([serialized], schema, record_type="SequenceExample")
    assert batch.to_pylist() == [{"words": [["x"]], "id": 7, "steps": [[1, 2], [3]]}]
    assert records.encode(batch, record_type="SequenceExample").to_pylist() == [serialized]
    with pytest.raises(BadInputError, match="only a SequenceExample has"):
        records.decode([serialized], schema)


def test_infers_the_schema(tmp_path):
    path = tmp_path / "f"
    records.write_records(
        path,
        [
            example(
                one=("int", [1]),
                list=("float", [1, 2]),
                text=("bytes", [b"a"]),
                none=("int", []),
                some=("int", [1]),
            ).SerializeToString(),
            example(
                one=("int", [2]), list=("float", [3]), text=("bytes", [b"b"])
            ).SerializeToString(),
        ],
    )
    expected = {"list": pa.list_(pa.float32()), "one": pa.int64(), "some": pa.int64()}
    schema = records.infer_schema([path])
    assert {field.name: field.type for field in schema} == {**expected, "text": pa.binary()}
    assert [field.name for field in schema if field.nullable] == ["some"]
    assert records.infer_schema([path], strings=True).field("text").type == pa.string()
    assert records.infer_schema([path, path], records=1).field("some").nullable is False
    assert [row["one"] for batch in records.read(path) for row in batch.to_pylist()] == [1, 2]
    records.write_records(
        path,
        [
            example(x=("int", [1])).SerializeToString(),
            example(x=("float", [1])).SerializeToString(),
        ],
    )
    with pytest.raises(
        BadInputError,
        match="key 'x' is an int64_list in record 0 of .*/f and a float_list in record 1 of",
    ):
        records.infer_schema([path])


def test_damaged_files(tmp_path):
    path = tmp_path / "f.tfrecord"
    schema = pa.schema([("n", pa.int64())])
    records.write(path, [pa.record_batch({"n": range(10)})])
    content = bytearray(path.read_bytes())
    size = len(content) // 10
    content[3 * size + 14] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=rf"f.tfrecord: record 3 at offset {3 * size}: the CRC"):
        list(records.read(path, schema))
    reader = records.Reader(path, schema, mode="permissive")
    assert [row["n"] for batch in reader for row in batch.to_pylist()] == [
        0,
        1,
        2,
        None,
        *range(4, 10),
    ]
    assert reader.counts["bad_records"] == 1 and "record 3" in reader.counts["first_problem"]
    path.write_bytes(content[:-1])
    reader = records.Reader(path, schema, mode="dropmalformed")
    assert [row["n"] for batch in reader for row in batch.to_pylist()] == [0, 1, 2, *range(4, 9)]
    assert reader.counts["lost"]
    survey = records.verify(path)
    assert (survey["records"], survey["bad_records"], survey["lost"]) == (8, 1, True)
    with pytest.raises(FileNotFoundError, match="none"):
        list(records.read(tmp_path / "none", schema))
    records.write(path, [pa.record_batch({"n": range(10)})], compression="gzip")
    with pytest.raises(BadInputError, match="begins like GZIP: read it with compression 'gzip'"):
        list(records.read(path, schema))


def test_reads_without_a_schema_what_the_options_let_pass(tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"n": range(10)})])
    content = bytearray(path.read_bytes())
    content[len(content) // 10 * 4 - 1] ^= 1  # In the CRC of the data of record 3.
    path.write_bytes(content)

    def numbers(**options):
        batches = records.read(path, **options)
        return [row["n"] for batch in batches for row in batch.to_pylist()]

    with pytest.raises(BadInputError, match="record 3 .* the CRC of its data is wrong"):
        numbers()
    assert numbers(mode="dropmalformed") == [0, 1, 2, *range(4, 10)]
    assert numbers(mode="permissive") == [0, 1, 2, None, *range(4, 10)]
    assert len(numbers(validation="none")) == 10
    (sound,) = records.encode(pa.record_batch({"n": [7]})).to_pylist()
    # Those that are bad are not among the 1,000 that the schema is inferred from.
    records.write_records(path, [*[b"\xff"] * 1_000, sound])
    assert numbers(mode="dropmalformed") == [7]


def test_records_behind_the_sample_of_a_schema_may_lack_a_key(tmp_path):
    path = tmp_path / "f.tfrecord"
    known, more = 1_200, 300
    x = pa.array([*range(known), *[None] * more], pa.int64())
    records.write(path, [pa.record_batch({"n": range(known + more), "x": x})])
    read = pa.Table.from_batches(records.read(path))
    assert read["x"].to_pylist() == x.to_pylist() and read.schema.field("n").nullable


@pytest.mark.parametrize(
    "name, compression, first_bytes",
    [
        ("f.tfrecord", None, b"\x0e\0"),
        ("f.tfrecord.gz", None, b"\x1f\x8b"),
        ("f.tfrecord.zlib", None, b"\x78"),
        ("f.tfrecord.gz", "none", b"\x0e\0"),
        ("f.tfrecord", "gzip", b"\x1f\x8b"),
        ("f.tfrecord", "Zlib", b"\x78"),
        ("f.tfrecord", "GZIP", b"\x1f\x8b"),  # As TensorFlow spells it.
        ("f.tfrecord.gz", "", b"\x0e\0"),
    ],
)
def test_compression_is_what_is_named_or_the_name_says(tmp_path, name, compression, first_bytes):
    options = {} if compression is None else {"compression": compression}
    path, batch = tmp_path / name, pa.record_batch({"n": [7]})
    (record,) = records.encode(batch).to_pylist()
    for write, content in ((records.write, [batch]), (records.write_records, [record])):
        assert write(path, content, **options) == 1
        assert path.read_bytes().startswith(first_bytes)
    assert [found.to_pylist() for found in records.read(path, **options)] == [[{"n": 7}]]
    assert list(records.read_records(path, **options)) == [record]
    assert records.infer_schema(path, **options).names == ["n"]
    assert records.verify(path, **options)["records"] == 1


def test_a_file_whose_name_is_not_utf8_is_named(tmp_path):
    batch = pa.record_batch({"n": [1]})
    records.write(tmp_path / "good", [batch], compression="gzip")
    bad = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.tfrecord.gz")
    os.rename(tmp_path / "good", bad)
    (file,) = listing.list_files([tmp_path])
    assert file.path == bad and formats.compression_of(bad, None) == "GZIP"
    assert listing.split_files([file], 1, None) == [listing.FilePart(file, None, file.size)]
    calls = (
        lambda: records.read(bad, batch.schema),
        lambda: records.write(bad, [batch]),
        lambda: files.tfrecords([bad], batch.schema, 1),
        lambda: listing.infer_schema(
            [file], record_type="Example", compression=None, sample=1, strings=False
        ),
    )
    for call in calls:
        with pytest.raises(
            BadInputError, match=r"caf\\udce9\.tfrecord\.gz': this name is not UTF-8"
        ):
            call()


def test_parts_of_an_indexed_file(tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"n": range(20_000)})])
    schema = pa.schema([("n", pa.int64())])
    assert records.make_index(path, interval_bytes=1_000) == 20_000
    parts = records.split(path, 100_000)
    assert len(parts) > 4
    read = [
        [row["n"] for batch in records.read(path, schema, part=part) for row in batch.to_pylist()]
        for part in parts
    ]
    assert [values[0] for values in read] == [part.first_record for part in parts]
    assert sum(read, []) == list(range(20_000))
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(BadInputError, match="make it again"):
        records.split(path, 100_000)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda path: records.read(path, pa.schema([("t", pa.timestamp("us"))])),
            "column 't' .* 'tsu:'",
        ),
        (
            lambda path: records.read(path, record_type="Other"),
            "must be Example or SequenceExample",
        ),
        (
            lambda path: records.read(path, pa.schema([]), compression="LZ4"),
            "compression must be none, gzip or zlib, not 'LZ4'",
        ),
        (
            lambda path: records.read(path, pa.schema([]), mode="fast"),
            "mode must be failfast, dropmalformed or permissive, not 'fast'",
        ),
        (
            lambda path: records.write(path, [pa.record_batch({"t": pa.array([[1, None]])})]),
            "row 0 has a null inside a list",
        ),
        (lambda path: records.write(path, [[1]]), "not a record batch"),
    ],
)
def test_what_is_refused(tmp_path, call, message):
    path = tmp_path / "f"
    path.write_bytes(b"")
    with pytest.raises(BadInputError, match=message):
        call(path)


def test_a_row_that_is_refused_has_its_number_in_the_file(tmp_path):
    lists = pa.array([[1], [2], [3, None]], pa.list_(pa.int64()))
    batch = pa.record_batch({"t": lists})
    with pytest.raises(BadInputError, match="column 't': row 4 has a null inside a list"):
        records.write(tmp_path / "f", [batch[:2], batch[:1], batch[1:]])


def test_a_long_first_record_says_little_of_the_others():
    """Room for a million as long as it is more than any host has."""
    rows = 1_000_000
    text = pa.concat_arrays([pa.array(["x" * (8 << 20)]), pa.nulls(rows - 1, pa.string())])
    encoded = records.encode(pa.record_batch({"s": text}))
    assert len(encoded) == rows and len(encoded[0].as_py()) > 8 << 20
    assert encoded[rows - 1].as_py() == encoded[1].as_py()


def test_a_reader_serves_one_thread_at_a_time(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)  # Opening one end would wait for the other.
    reader = _native.RecordReader(_native.RecordFile(path, "", None, None, None))

    def in_use():
        try:
            _ = reader.number
        except BadInputError:
            return True
        return False

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(reader.next)
        wait_for(in_use, "a thread that waits for a record")
        with pytest.raises(BadInputError, match="next: another thread is using this reader"):
            reader.next()
        with tf.io.TFRecordWriter(str(tmp_path / "file")) as one:
            one.write(b"abc")
        os.write(writer, (tmp_path / "file").read_bytes())
        os.close(writer)
        assert waiting.result(120) == b"abc"
    assert reader.number == 1 and reader.next() is None
