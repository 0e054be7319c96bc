"""What Spark needs to read and write TFRecords, against Python and against Parquet, in one run.

    python bench/files/spark.py [--repeat 5] [--rows 100000] [--output docs/performance.md]

The rivals: a `mapPartitions` with `tf.train.Example` as tensorflowonspark 2.2.5's `dfutil` has it (of
fewer rows, as it takes so long), and the same rows as uncompressed Parquet. Reading ends in an
aggregate over every column. Runs alternate, after one that is not counted; what was read is checked.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "feed"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["PYSPARK_PYTHON"] = sys.executable

import report  # noqa: E402  (beside the feed's benchmarks)

#: One in so many rows is what the Python rival gets.
PYTHON_SHARE = 20

SHAPES = {
    "an image of 784 floats, a label": (
        "id AS label, transform(sequence(1, 784), x -> cast(x * 0.5 AS float)) AS image",
        "label long, image array<float>",
        ["sum(label)", "sum(aggregate(image, 0d, (a, x) -> a + x))"]),
    "4 numbers, a string": (
        "id AS a, id * 2 AS b, cast(id AS float) AS c, cast(id AS float) AS d, concat('row ', id) AS s",
        "a long, b long, c float, d float, s string",
        ["sum(a)", "sum(b)", "sum(c)", "sum(d)", "sum(length(s))"]),
}


def examples_of(rows):
    import tensorflow as tf

    for row in rows:
        features = {}
        for name, value in row.asDict().items():
            values = value if isinstance(value, list) else [value]
            if isinstance(values[0], str):
                feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in values]))
            elif isinstance(values[0], int):
                feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
            else:
                feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
            features[name] = feature
        yield tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def rows_of(serialized):
    import tensorflow as tf
    from pyspark.sql import Row

    for record in serialized:
        values = {}
        for name, feature in tf.train.Example.FromString(bytes(record)).features.feature.items():
            kind = feature.WhichOneof("kind")
            found = getattr(feature, kind).value
            found = [value.decode() for value in found] if kind == "bytes_list" else list(found)
            values[name] = found if len(found) > 1 else found[0]
        yield Row(**values)


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(spark, directory, rows, shape, repeat):
    """{what: {who: [seconds per row]}}"""
    columns, schema, sums = SHAPES[shape]
    frame = spark.range(0, rows, 1, 2).selectExpr(*columns_of(columns)).cache()
    few = spark.range(0, rows // PYTHON_SHARE, 1, 2).selectExpr(*columns_of(columns)).cache()
    frame.count(), few.count()

    def save(frame, kind):
        writer = frame.write.format(kind).mode("overwrite")
        (writer.option("compression", "uncompressed") if kind == "parquet" else writer).save(f"{directory}/{kind}")

    def load(kind):
        return spark.read.format(kind).schema(schema).load(f"{directory}/{kind}").selectExpr(*sums).first()

    def python_save():
        few.rdd.mapPartitions(examples_of).map(lambda record: (None, bytearray(record))).count()

    serialized = few.rdd.mapPartitions(examples_of).cache()
    serialized.count()

    def python_load():
        # The RDD, not a DataFrame made of it: to its credit.
        return serialized.mapPartitions(rows_of).count()

    runs = {
        "write": {"tfos": lambda: save(frame, "tfrecord"), "Parquet": lambda: save(frame, "parquet"),
                  "Python": python_save},
        "read": {"tfos": lambda: load("tfrecord"), "Parquet": lambda: load("parquet"), "Python": python_load},
    }
    result = {}
    for what, whose in runs.items():
        for function in whose.values():
            function()
        result[what] = {who: [] for who in whose}
        for _ in range(repeat):
            for who, function in whose.items():
                count = rows // PYTHON_SHARE if who == "Python" else rows
                result[what][who].append(timed(function) / count)
    assert load("tfrecord") == load("parquet") == frame.selectExpr(*sums).first()
    for cached in (frame, few, serialized):
        cached.unpersist()
    return result


def columns_of(text):
    """The columns of a SELECT list, whose names follow AS."""
    import re

    return re.findall(r"\s*(.+? AS \w+)(?:,|$)", text)


def lines_of(shape, result):
    for what, seconds in result.items():
        ours = statistics.median(seconds["tfos"])
        cells = []
        for who in ("Python", "Parquet"):
            ratios = sorted(theirs / mine for theirs, mine in zip(seconds[who], seconds["tfos"]))
            cells.append(f"{1 / statistics.median(seconds[who]):,.0f} rows/s: "
                         f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        yield f"| {what}: {shape} | {1 / ours:,.0f} rows/s | {cells[0]} | {cells[1]} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    import tfos

    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "3g").getOrCreate())
    tfos.register(spark)
    lines = ["| | tfos | Python, `tf.train.Example` (to reach: 10) | Parquet (to reach: 0.67) |", "|---|---|---|---|"]
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            lines += lines_of(shape, measure(spark, directory, options.rows, shape, options.repeat))
    spark.stop()
    report.publish("spark.py", options.repeat, f"Two tasks of one host, {options.rows:,} rows; medians, ratios "
                   "of the rival's time to that of tfos with minimum and maximum.", lines, options.output,
                   folder="files")


if __name__ == "__main__":
    main()
