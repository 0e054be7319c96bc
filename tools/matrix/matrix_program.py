#!/usr/bin/env python3
"""What tfos does with some versions of Spark, TensorFlow, Python and Java, tried in real clusters
of this machine.

    python tools/matrix/matrix_program.py RESULTS [--jar] [--only NAME,...]

tools/matrix/run_matrix.py runs it with each combination. It writes to RESULTS, as JSON, which
versions there are and what became of each case: "ok", or the error. With --jar the session has the
jar of tfos on its class path, and cases fail whose work executors' JVMs should have done and did
not.
"""

import argparse
import datetime
import json
import logging
import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pyspark
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession

import tfos
import tfos.ml
from tfos import parallel
from tfos.spark import jar

MASTER = "local-cluster[2,1,1024]"
ROWS = 2_000
EPOCHS = 3
CLOSE = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--jar", action="store_true")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    options = parser.parse_args()
    spark = session(options.jar)
    with tempfile.TemporaryDirectory(prefix="tfos-matrix-") as directory:
        cases = Cases(spark, options.jar, directory)
        names = options.only.split(",") if options.only else CASES
        found = {name: outcome(getattr(cases, name)) for name in names}
    report = {
        "date": str(datetime.date.today()),
        "versions": versions(spark),
        "jar": (jar.obstacle(spark.sparkContext) or "used") if options.jar else "not asked for",
        "cases": found,
    }
    spark.stop()
    options.results.write_text(json.dumps(report, indent=1))
    return 0 if all(text == "ok" for text in found.values()) else 1


def session(with_jar):
    """Two executors of one core, each with this Python."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    builder = (
        SparkSession.builder.master(MASTER)
        .appName("tfos matrix")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    if with_jar:
        builder = builder.config("spark.jars", tfos.jar_path())
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def versions(spark):
    import pyarrow
    import tensorflow as tf

    import keras

    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    scala = spark.sparkContext._jvm.scala.util.Properties.versionNumberString()
    return {
        "Spark": pyspark.__version__,
        "Scala": scala,
        "Java": java,
        "Python": platform.python_version(),
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "PyArrow": pyarrow.__version__,
    }


def outcome(case):
    """The word "ok", or the error in one line; all of it goes to the output."""
    began = time.monotonic()
    try:
        case()
        text = "ok"
    except Exception as error:
        traceback.print_exc()
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    print(f"{case.__name__}: {text} ({time.monotonic() - began:.0f} s)", flush=True)
    return text


# -- what nodes and tasks run


def count_rows(ctx):
    """Counts what it reads, by hand."""
    total = 0
    while not ctx.feed.should_stop():
        total += len(ctx.feed.next_batch(100))
    ctx.report(total=total)


def answer(ctx):
    """Twice the number, for each row."""
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(100)
        if rows:
            ctx.feed.batch_results([2.0 * row[0] for row in rows])


def fit_line(ctx):
    """One Keras model on all nodes, exported by the chief."""
    import keras

    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Input((2,), name="x"), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.Adam(0.05)), "mse")
    history = model.fit(
        ctx.dataset(50, features="x", label="y"), epochs=ctx.args["epochs"], verbose=0
    )
    ctx.report(loss=float(history.history["loss"][-1]))
    if ctx.is_chief:
        model.export(ctx.args["model"])


def build_line(_):
    """The model of the pipeline's estimator."""
    import keras

    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model


class Cases:
    """Each method is a case: it returns, or raises what went wrong. They run in this order, as
    those behind `fit` use its model."""

    def __init__(self, spark, with_jar, directory):
        self.spark = spark
        self.with_jar = with_jar
        self.directory = directory
        self.model = f"{directory}/line"
        self.points = spark.range(ROWS, numPartitions=4).selectExpr(
            "id",
            "array(id % 7 / 7, id % 11 / 11) AS x",
            "id % 7 / 7 - id % 11 / 11 AS y",
        )

    def feed_rdd(self):
        with tfos.run(self.spark, count_rows, nodes=2) as cluster:
            cluster.train(self.spark.sparkContext.parallelize(range(ROWS), 4), epochs=2)
        expect(2 * ROWS, sum(node.metrics["total"] for node in cluster.status()))

    def feed_dataframe(self):
        lines = Lines("tfos.cluster.feed")
        with tfos.run(self.spark, count_rows, nodes=2) as cluster, lines:
            cluster.train(self.points, epochs=2, shuffle=True)
        expect(2 * ROWS, sum(node.metrics["total"] for node in cluster.status()))
        lines.expect("JVM" if self.with_jar else "Python workers")

    def fit(self):
        args = {"model": self.model, "epochs": EPOCHS}
        with tfos.run(self.spark, fit_line, nodes=2, args=args) as cluster:
            cluster.train(self.points.select("x", "y"), epochs=EPOCHS)
        for node in cluster.status():
            expect(True, node.metrics["loss"] < CLOSE)

    def inference(self):
        with tfos.run(self.spark, answer, nodes=2) as cluster:
            numbers = self.points.selectExpr("cast(id AS double) AS n", "id AS key")
            doubled = cluster.inference(numbers, schema="twice double", keys=["key"]).collect()
            rows = self.spark.sparkContext.parallelize([(n,) for n in range(100)], 2)
            from_rdd = cluster.inference(rows).collect()
        expect(ROWS, len(doubled))
        expect(True, all(row.twice == 2 * row.key for row in doubled))
        expect([2.0 * n for n in range(100)], from_rdd)

    def transform(self):
        lines = Lines("tfos.inference.frames")
        with lines:
            scored = tfos.ml.Model(modelDir=self.model).transform(self.points)
        found = scored.selectExpr("max(abs(output_0 - y))", "count(*)").first()
        expect(ROWS, found[1])
        expect(True, found[0] < 1)
        lines.expect("executors' JVMs" if self.with_jar else "Python workers")

    def ml_pipeline(self):
        points = self.points.selectExpr("x[0] AS a", "x[1] AS b", "y").cache()
        estimator = tfos.ml.Estimator(
            build=build_line,
            inputMapping={"features": "features"},
            outputMapping={"output_0": "prediction"},
            labelCol="y",
            nodes=2,
            epochs=EPOCHS,
            batchSize=50,
            modelDir=f"{self.directory}/fits",
        )
        stages = [VectorAssembler(inputCols=["a", "b"], outputCol="features"), estimator]
        saved = f"{self.directory}/pipeline"
        Pipeline(stages=stages).fit(points).write().overwrite().save(saved)
        error = "avg(abs(prediction - y))"
        scored = PipelineModel.load(saved).transform(points)
        expect(True, scored.selectExpr(error).first()[0] < CLOSE)
        estimator.write().overwrite().save(f"{self.directory}/estimator")
        loaded = tfos.ml.Estimator.load(f"{self.directory}/estimator")
        expect(estimator.getEpochs(), loaded.getEpochs())

    def instances(self):
        found = parallel.run(self.spark, lambda instance: instance.index * 10, instances=2)
        expect([0, 10], found)

    def save_tfrecords(self):
        path = f"{self.directory}/saved"
        tfos.save_tfrecords(self.points, path)
        expect(ROWS, sum(1 for _ in records_of(path)))

    def old_programs(self):
        """The functions of tensorflowonspark.dfutil."""
        from tensorflowonspark import dfutil

        path = f"{self.directory}/old"
        dfutil.saveAsTFRecords(self.points.select("id"), path)
        loaded = dfutil.loadTFRecords(self.spark.sparkContext, path)
        expect(sum(range(ROWS)), loaded.selectExpr("sum(id)").first()[0])

    def format_tfrecord(self):
        path = f"{self.directory}/format"
        tfos.register_tfrecords(self.spark)
        self.points.write.format("tfrecord").mode("append").save(path)
        loaded = self.spark.read.format("tfrecord").load(path)
        found = loaded.selectExpr("sum(id)", "sum(y)", "sum(x[1])").first()
        wanted = self.points.selectExpr("sum(id)", "sum(y)", "sum(x[1])").first()
        expect(True, all(abs(a - b) < CLOSE for a, b in zip(found, wanted, strict=True)))


CASES = (
    "feed_rdd",
    "feed_dataframe",
    "fit",
    "inference",
    "transform",
    "ml_pipeline",
    "instances",
    "save_tfrecords",
    "old_programs",
    "format_tfrecord",
)


def records_of(directory):
    from tfos.records import files

    for path in sorted(Path(directory).glob("part-*.tfrecord")):
        yield from files.read_records(path)


def expect(wanted, found):
    if found != wanted:
        raise AssertionError(f"{found!r} was found, and {wanted!r} was expected")


class Lines(logging.Handler):
    """What a logger says in a `with` block."""

    def __init__(self, name):
        super().__init__()
        self._logger = logging.getLogger(name)
        self._said = []

    def emit(self, record):
        self._said.append(record.getMessage())

    def expect(self, part):
        if not any(part in line for line in self._said):
            raise AssertionError(f"the log has nothing of {part!r}: {self._said}")

    def __enter__(self):
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_):
        self._logger.removeHandler(self)


if __name__ == "__main__":
    sys.exit(main())
