"""TFRecords and tf.Example against TensorFlow, protobuf and memcpy, on one core, in one run.

    python bench/files/codec.py [--repeat 7] [--output docs/performance.md]

Decoding is compared with `tf.io.parse_example` on one thread, over the same serialized examples in
batches. Encoding is compared with `tf.train.Example(...).SerializeToString()` in Python. Framing in
memory is compared with a copy of as many bytes, and of a cached file with only reading it, which is
the copy that nobody gets around. Each pair alternates; what was read is checked first.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "feed"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import report

BATCH = 1024
FLOATS = 784
SCALARS = 20
#: For one measurement of tfos, as the rival takes so much longer.
ENCODED_TIMES = 10


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(ours, theirs, repeat):
    """[(seconds of ours, seconds of theirs)], both warm."""
    ours(), theirs()
    return [(timed(ours), timed(theirs)) for _ in range(repeat)]


def make_cases():
    """case: (serialized examples, Arrow schema, features of parse_example, target)."""
    import numpy as np
    import pyarrow as pa
    import tensorflow as tf

    random = np.random.default_rng(1)
    feature, features = tf.train.Feature, tf.train.Features

    def serialize(count, **columns):
        return [
            tf.train.Example(
                features=features(feature={name: make(n) for name, make in columns.items()})
            ).SerializeToString()
            for n in range(count)
        ]

    def floats(length):
        return lambda n: feature(
            float_list=tf.train.FloatList(
                value=random.random(length(n) if callable(length) else length, np.float32)
            )
        )

    def integer(n):
        return feature(int64_list=tf.train.Int64List(value=[n]))

    def scalar(index):
        if index % 3 == 0:
            return integer
        if index % 3 == 1:
            return floats(1)
        return lambda n: feature(bytes_list=tf.train.BytesList(value=[b"value %d" % n]))

    names = [f"feature_{index:02}" for index in range(SCALARS)]
    types = [(pa.int64(), tf.int64), (pa.float32(), tf.float32), (pa.binary(), tf.string)]
    fixed = tf.io.FixedLenFeature
    return {
        f"{FLOATS} floats, fixed length": (
            serialize(4 * BATCH, image=floats(FLOATS)),
            pa.schema([("image", pa.list_(pa.float32(), FLOATS))]),
            {"image": fixed([FLOATS], tf.float32)},
            1.0,
        ),
        f"about {FLOATS} floats, variable length": (
            serialize(4 * BATCH, image=floats(lambda n: FLOATS - 10 + n % 20)),
            pa.schema([("image", pa.list_(pa.float32()))]),
            {"image": tf.io.VarLenFeature(tf.float32)},
            2.0,
        ),
        f"{SCALARS} single values (int64, float, bytes)": (
            serialize(8 * BATCH, **{name: scalar(i) for i, name in enumerate(names)}),
            pa.schema([(name, types[i % 3][0]) for i, name in enumerate(names)]),
            {name: fixed([], types[i % 3][1]) for i, name in enumerate(names)},
            1.5,
        ),
    }


def check(parsed, batch):
    """That both read the same."""
    import numpy as np
    import tensorflow as tf

    for name, tensor in parsed.items():
        column = batch[name]
        if isinstance(tensor, tf.SparseTensor):
            ours, theirs = column.flatten().to_numpy(), tensor.values.numpy()
        elif len(tensor.shape) > 1:
            ours, theirs = column.flatten().to_numpy(), tensor.numpy().ravel()
        else:
            ours, theirs = np.array(column.to_pylist()), tensor.numpy()
        assert (ours == theirs).all(), name


def decode_lines(cases, repeat):
    import tensorflow as tf

    from tfos import _native, records

    lines = []
    for what, (serialized, schema, features, target) in cases.items():
        batches = [serialized[i : i + BATCH] for i in range(0, len(serialized), BATCH)]
        tensors = [tf.constant(batch) for batch in batches]
        parse = tf.function(
            lambda batch: tf.io.parse_example(batch, features),
            input_signature=[tf.TensorSpec([None], tf.string)],
        )
        decoder = _native.ExampleDecoder(schema, "Example")
        check(parse(tensors[0]), records.decode(batches[0], schema))

        def ours():
            for batch in batches:
                decoder.decode(batch)

        def theirs():
            for batch in tensors:
                parse(batch)

        pairs = alternate(ours, theirs, repeat)
        size = sum(map(len, serialized))
        lines.append(
            line(
                f"decode: {what}",
                f"{BATCH} a batch, `tf.io.parse_example`",
                pairs,
                target,
                lambda s: f"{len(serialized) / s / 1e6:.2f} M rows/s, {size / s / 1e9:.2f} GB/s",
            )
        )
    return lines


def encode_lines(cases, repeat):
    import tensorflow as tf

    from tfos import records

    lines = []
    kinds = {
        "int64": ("int64_list", tf.train.Int64List),
        "float": ("float_list", tf.train.FloatList),
        "binary": ("bytes_list", tf.train.BytesList),
    }
    for what, (serialized, schema, _, _) in cases.items():
        serialized = serialized[:BATCH]
        batch = records.decode(serialized, schema)
        rows = batch.to_pylist()

        def theirs():
            result = []
            for row in rows:
                features = {}
                for field in schema:
                    value = row[field.name]
                    element = getattr(field.type, "value_type", field.type)
                    name, make = kinds[str(element)]
                    features[field.name] = tf.train.Feature(
                        **{name: make(value=value if isinstance(value, list) else [value])}
                    )
                result.append(
                    tf.train.Example(
                        features=tf.train.Features(feature=features)
                    ).SerializeToString(deterministic=True)
                )
            return result

        def ours():
            for _ in range(ENCODED_TIMES):
                records.encode(batch)

        assert records.encode(batch).to_pylist() == theirs()
        pairs = [
            (seconds / ENCODED_TIMES, python) for seconds, python in alternate(ours, theirs, repeat)
        ]
        lines.append(
            line(
                f"encode: {what}",
                "`tf.train.Example` in Python",
                pairs,
                50,
                lambda s: f"{len(rows) / s:,.0f} rows/s",
            )
        )
    return lines


def framing_lines(repeat):
    """Reading all records with their CRCs checked against a copy in memory, and against `read`."""
    from tfos import _native

    lines = []
    block = bytearray(256 << 10)
    for record_bytes in (3_136, 100_000):
        count = (256 << 20) // record_bytes
        record = os.urandom(record_bytes)
        with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
            path = os.path.join(directory, "f.tfrecord")
            writer = _native.RecordWriter(path, "", None, True)
            for _ in range(count):
                writer.write(record)
            writer.close()
            content = pathlib.Path(path).read_bytes()
            size = len(content)
            target = ctypes.create_string_buffer(size)

            def survey(reader):
                assert reader.survey()["records"] == count

            def read_bare():
                with open(path, "rb", buffering=0) as file:
                    while file.readinto(block):
                        pass

            def rate(s):
                return f"{size / s / 1e9:.2f} GB/s"

            def file():
                survey(_native.RecordReader(_native.RecordFile(path, "", "full", None, None)))

            what = f"records of {record_bytes:,} bytes, all CRCs checked"
            lines.append(
                line(
                    f"{what}, in memory",
                    "`memcpy` of as many bytes",
                    alternate(
                        lambda: survey(_native.RecordReader.of_bytes(content, "full")),
                        lambda: ctypes.memmove(target, content, size),
                        repeat,
                    ),
                    0.8,
                    rate,
                )
            )
            lines.append(
                line(
                    f"{what}, cached file",
                    "bare `read` of the file",
                    alternate(file, read_bare, repeat),
                    0.8,
                    rate,
                )
            )
            lines.append(
                line(
                    f"{what}, cached file",
                    "`memcpy` of as many bytes",
                    alternate(file, lambda: ctypes.memmove(target, content, size), repeat),
                    "",
                    rate,
                )
            )
    return lines


def line(what, rival, pairs, target, rate):
    ours = statistics.median(ours for ours, _ in pairs)
    theirs = statistics.median(theirs for _, theirs in pairs)
    ratios = sorted(t / o for o, t in pairs)
    text = (
        f"| {what} | {rate(ours)} | {rival}: {rate(theirs)} | **{theirs / ours:.2f}** "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | {target} |"
    )
    print(text, flush=True)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    # Both sides on one core, whatever the machine has.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    cases = make_cases()
    lines = ["| | tfos | rival | ratio | to reach |", "|---|---|---|---|---|"]
    lines += decode_lines(cases, options.repeat)
    lines += encode_lines(cases, options.repeat)
    lines += framing_lines(options.repeat)
    report.publish(
        "codec.py",
        options.repeat,
        "Medians; ratios with minimum and maximum.",
        lines,
        options.output,
        folder="files",
    )


if __name__ == "__main__":
    main()
