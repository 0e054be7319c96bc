"""What Spark needs to read and write TFRecords, against Python and against Parquet, in one run.

    python bench/files/spark.py [--repeat 5] [--scale 1] [--case image numbers] [--what read write]
                                [--rivals Parquet ...] [--output docs/performance.md]

Measured are the format of the jar ("tfos") and the one for sessions without it, which is written in
Python ("tfos in Python"). The rivals:

- Python: what tensorflowonspark 2.2.5's `dfutil` does, of fewer rows, as it takes so long, and with
  TensorFlow imported already (see `tensorflow_daemon.py`). Reading:
  a Hadoop input format, `tf.train.Example` and a Row for each record, a DataFrame of those. Writing:
  `tf.train.Example` of each row, a Hadoop output format. The formats are Hadoop's sequence files of
  the same keys and values, as the jar with those of TFRecord is not on PyPI.
- Parquet: the same rows, uncompressed.
- the bound: a data source in Python that has its record batches in memory already, or drops those
  that it is to write. No data source that is written in Python can be faster.

Reading ends in an aggregate over every column. Runs alternate, after one that is not counted; what
was read is checked. Aims: 10 times the rate of Python, and 0.67 of that of Parquet.
"""

import argparse
import functools
import itertools
import os
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "feed"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
)

import report  # noqa: E402  (beside the feed's benchmarks)
from pyspark.sql.datasource import (  # noqa: E402
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

PARTS = 2

#: Rows of a batch of the bound.
BATCH_ROWS = 4_096

#: What is measured, by the name of the format.
OURS = {"tfos": "tfrecord", "tfos in Python": "tfrecord_python"}
RIVALS = ("Python", "Parquet", "bound")

#: name: (title, rows, those of the Python rival, SELECT list, schema, aggregates). Numbers that take seconds, as a query has costs of
#: its own; random floats, as Parquet stores repeated ones only once.
SHAPES = {
    "image": (
        "an image of 784 floats, a label",
        50_000,
        10_000,
        ["id AS label", "transform(sequence(1, 784), x -> cast(hash(id, x) AS float)) AS image"],
        "label long, image array<float>",
        ["sum(label)", "sum(array_max(image))"],
    ),
    "numbers": (
        "4 numbers, a string",
        2_000_000,
        50_000,
        [
            "id AS a",
            "id * 2 AS b",
            "cast(id AS float) AS c",
            "cast(id AS float) AS d",
            "concat('row ', id) AS s",
        ],
        "a long, b long, c float, d float, s string",
        ["sum(a)", "sum(b)", "sum(c)", "sum(d)", "sum(length(s))"],
    ),
}

_HADOOP = "org.apache.hadoop.mapreduce.lib"
_KEYS = {
    "keyClass": "org.apache.hadoop.io.BytesWritable",
    "valueClass": "org.apache.hadoop.io.NullWritable",
}


class Batches(DataSource):
    """Record batches of an Arrow file, again and again until there are so many rows; or a place
    where they vanish."""

    @classmethod
    def name(cls):
        return "batches"

    def reader(self, schema):
        return BatchesReader(self.options["path"], int(self.options["rows"]))

    def writer(self, schema, overwrite):
        return BatchesWriter()


class BatchesReader(DataSourceReader):
    def __init__(self, path, rows):
        self.path, self.rows = path, rows

    def partitions(self):
        return [InputPartition(part) for part in range(PARTS)]

    def read(self, partition):
        import pyarrow as pa

        file = pa.ipc.open_file(pa.memory_map(self.path))
        batches = [file.get_batch(number) for number in range(file.num_record_batches)]
        left = self.rows // PARTS
        for batch in itertools.cycle(batches):
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


class BatchesWriter(DataSourceArrowWriter):
    def write(self, iterator):
        for _ in iterator:
            pass
        return WriterCommitMessage()


def examples_of(rows):
    """Pairs of a serialized example and nothing."""
    import tensorflow as tf

    for row in rows:
        features = {}
        for name, value in row.asDict().items():
            values = value if isinstance(value, list) else [value]
            if isinstance(values[0], str):
                feature = tf.train.Feature(
                    bytes_list=tf.train.BytesList(value=[v.encode() for v in values])
                )
            elif isinstance(values[0], int):
                feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
            else:
                feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
            features[name] = feature
        example = tf.train.Example(features=tf.train.Features(feature=features))
        yield bytearray(example.SerializeToString()), None


def rows_of(records):
    """A Row for each pair."""
    import tensorflow as tf
    from pyspark.sql import Row

    for record, _ in records:
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


def measure(spark, directory, rows, few_rows, shape, repeat, whats, whose):
    """{what: {who: [seconds per row]}}"""
    import pyarrow as pa

    _, _, _, columns, schema, sums = SHAPES[shape]
    names = [field.split()[0] for field in schema.split(", ")]
    frame = spark.range(0, rows, 1, PARTS).selectExpr(*columns).cache()
    few = spark.range(0, few_rows, 1, PARTS).selectExpr(*columns).cache()
    frame.count(), few.count()
    some = frame.limit(4 * BATCH_ROWS).toArrow()
    with pa.ipc.new_file(f"{directory}/batches", some.schema) as file:
        file.write_table(some, BATCH_ROWS)
    written = itertools.count()

    def save(kind):
        writer = frame.write.format(kind).mode("append" if kind == "batches" else "overwrite")
        writer.option("compression", "uncompressed").save(f"{directory}/{kind}")

    def load(kind):
        reader = spark.read.format(kind).schema(schema)
        if kind == "batches":
            reader = reader.option("rows", rows)
        return reader.load(f"{directory}/{kind}").selectExpr(*sums).first()

    def python_save(frame):
        path = f"{directory}/python-{next(written)}"
        frame.rdd.mapPartitions(examples_of).saveAsNewAPIHadoopFile(
            path, f"{_HADOOP}.output.SequenceFileOutputFormat", **_KEYS
        )
        return path

    def python_load(path):
        records = spark.sparkContext.newAPIHadoopFile(
            path, f"{_HADOOP}.input.SequenceFileInputFormat", **_KEYS
        )
        rows = records.mapPartitions(rows_of).map(lambda row: tuple(row[name] for name in names))
        # FloatList comes back as double there.
        return rows.toDF(schema.replace("float", "double")).selectExpr(*sums).first()

    few_path = python_save(few) if "Python" in whose else None

    def measure_once(who, function):
        return timed(function) / (few_rows if who == "Python" else rows)

    kinds = {**OURS, "Parquet": "parquet", "bound": "batches"}
    runs = {
        "write": {
            **{who: functools.partial(save, kind) for who, kind in kinds.items()},
            "Python": lambda: python_save(few),
        },
        "read": {
            **{who: functools.partial(load, kind) for who, kind in kinds.items()},
            "Python": lambda: python_load(few_path),
        },
    }
    result = {}
    for what in whats:
        functions = {who: runs[what][who] for who in whose}
        for who, function in functions.items():
            if what == "read" and who != "Python" and "write" not in whats:
                save(kinds[who])
            measure_once(who, function)
        result[what] = {who: [] for who in whose}
        for _ in range(repeat):
            for who, function in functions.items():
                result[what][who].append(measure_once(who, function))
    expected = frame.selectExpr(*sums).first()
    for who in whose:
        if who not in ("Python", "bound"):
            assert load(kinds[who]) == expected, who
    if "Python" in whose:
        assert python_load(few_path) == few.selectExpr(*sums).first()
    frame.unpersist(), few.unpersist()
    return result


def lines_of(shape, result, rivals):
    for what, seconds in result.items():
        for mine in (who for who in OURS if who in seconds):
            cells = []
            for who in rivals:
                ratios = sorted(theirs / ours for theirs, ours in zip(seconds[who], seconds[mine]))
                cells.append(
                    f"{1 / statistics.median(seconds[who]):,.0f} rows/s: "
                    f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                )
            yield (
                f"| {what}: {SHAPES[shape][0]} | {mine} | "
                f"{1 / statistics.median(seconds[mine]):,.0f} rows/s | {' | '.join(cells)} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--case", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--what", nargs="+", choices=("write", "read"), default=["write", "read"])
    parser.add_argument("--ours", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    import tfos
    from tfos.records.spark import sessions

    spark = (
        SparkSession.builder.master(f"local[{PARTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.jars", tfos.jar_path())
        .config("spark.python.daemon.module", "tensorflow_daemon")
        .getOrCreate()
    )
    sessions.register_python(spark, OURS["tfos in Python"])
    spark.dataSource.register(Batches)
    titles = {"Python": "Python, `tf.train.Example`", "Parquet": "Parquet", "bound": "the bound"}
    lines = [
        f"| | | | {' | '.join(titles[who] for who in options.rivals)} |",
        "|---|---|---" + "|---" * len(options.rivals) + "|",
    ]
    for shape in options.case:
        rows, few_rows = (int(count * options.scale) for count in SHAPES[shape][1:3])
        with tempfile.TemporaryDirectory() as directory:
            result = measure(
                spark,
                directory,
                rows,
                few_rows,
                shape,
                options.repeat,
                options.what,
                options.ours + options.rivals,
            )
            lines += lines_of(shape, result, options.rivals)
    spark.stop()
    rows_of_all = " and ".join(
        f"{int(SHAPES[shape][1] * options.scale):,}" for shape in options.case
    )
    report.publish(
        "spark.py",
        options.repeat,
        f"{PARTS} tasks of one host; {rows_of_all} rows; medians, ratios "
        "of the rival's time to that of tfos with minimum and maximum.",
        lines,
        options.output,
        folder="files",
    )


if __name__ == "__main__":
    main()
