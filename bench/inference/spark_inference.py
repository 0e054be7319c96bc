"""One measurement of running a DataFrame through a small dense net on a Spark cluster.

The same file runs with tfos and with tensorflowonspark 2.2.5, each in its own environment, and prints
one JSON line. `compare.py` runs both and prints the ratios.

    python spark_inference.py --cases transform bare udf --model DIR --data DIR [--repeat 3]

Cases, which take turns on one cluster: `transform`: TFModel.transform, for tfos in Python workers; `jvm`: the
same in the executors' JVMs; `udf`: Spark's predict_batch_udf with TensorFlow; `bare`: a
mapInArrow that takes all rows and gives columns of the same size, without a model.
"""

import argparse
import json
import os
import sys
import time

import numpy as np

CASES = ("transform", "jvm", "udf", "bare")
FEATURES = 784
CLASSES = 10
PARTITIONS = 8
#: Rows whose results are compared with NumPy's.
VERIFIED = 500


def features(ids):
    """The rows of these numbers: cheap, and different from each other."""
    return ((np.asarray(ids)[:, None] * 31 + np.arange(FEATURES) * 17) % 256 / 255).astype(
        np.float32
    )


def write_rows(directory, rows):
    """Parquet files of the rows, one for each partition. Needs pyarrow, unlike what reads them."""
    import pyarrow as pa
    from pyarrow import parquet

    count = rows // PARTITIONS
    for part in range(PARTITIONS):
        ids = np.arange(part * count, (part + 1) * count)
        offsets = np.arange(0, (count + 1) * FEATURES, FEATURES, dtype=np.int32)
        values = pa.ListArray.from_arrays(pa.array(offsets), pa.array(features(ids).ravel()))
        parquet.write_table(
            pa.table({"id": ids, "x": values}),
            directory / f"{part}.parquet",
            compression="none",
            use_dictionary=False,
        )


def bare(batches):
    import pyarrow as pa

    for batch in batches:
        rows = batch.num_rows
        offsets = pa.array(np.arange(0, (rows + 1) * CLASSES, CLASSES, dtype=np.int32))
        zeros = pa.array(np.zeros(rows * CLASSES, np.float32))
        yield pa.record_batch({"y": pa.ListArray.from_arrays(offsets, zeros)})


def scored(case, frame, options, name):
    """The lazy DataFrame of the results."""
    if case == "bare":
        return frame.select("x").mapInArrow(bare, "y array<float>")
    if case == "udf":
        from pyspark.ml.functions import predict_batch_udf
        from pyspark.sql.types import ArrayType, FloatType

        def make_predict():
            import tensorflow as tf

            loaded = tf.saved_model.load(options.model)
            serve = loaded.signatures["serving_default"]

            def predict(x):
                return serve(**{name: tf.constant(x)})["output_0"].numpy()

            predict.keeps = loaded
            return predict

        run = predict_batch_udf(
            make_predict,
            return_type=ArrayType(FloatType()),
            batch_size=options.batch_size,
            input_tensor_shapes=[[FEATURES]],
        )
        return frame.select(run("x").alias("y"))
    from tensorflowonspark import pipeline

    frame.sparkSession.conf.set("spark.tfos.inference.jvm", "on" if case == "jvm" else "off")
    model = pipeline.TFModel(argparse.Namespace())
    model.setExportDir(options.model).setTagSet("serve").setSignatureDefKey("serving_default")
    model.setInputMapping({"x": name}).setOutputMapping({"output_0": "y"}).setBatchSize(
        options.batch_size
    )
    return model.transform(frame.select("x"))


def verify(case, frame, options, name):
    """The results of the first rows, compared with what NumPy makes of the same weights."""
    weights = np.load(os.path.join(options.model, "weights.npz"))
    hidden = np.maximum(features(range(VERIFIED)) @ weights["w1"] + weights["b1"], 0)
    logits = hidden @ weights["w2"] + weights["b2"]
    first = frame.where(f"id < {VERIFIED}").repartition(1).sortWithinPartitions("id")
    rows = [row.y for row in scored(case, first, options, name).collect()]
    np.testing.assert_allclose(rows, logits, rtol=1e-3, atol=1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", choices=CASES, nargs="+", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, help="a directory of write_rows")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--jar", default="", help="of tfos, which `jvm` needs")
    options = parser.parse_args()

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    from pyspark.sql import SparkSession, functions

    spark = (
        SparkSession.builder.master("local-cluster[2,1,3072]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "3g")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.jars", options.jar)
        .getOrCreate()
    )
    with open(os.path.join(options.model, "input_name.txt")) as file:
        name = file.read()
    frame = spark.read.parquet(options.data).cache()
    count = frame.agg(functions.count("x")).first()[0]
    for case in options.cases:  # Loads models too, so the first ones that count are warm.
        result = scored(case, frame, options, name)
        assert result.count() == count
        if case != "bare":
            verify(case, frame, options, name)
    rates = {case: [] for case in options.cases}
    for _ in range(options.repeat):
        for case in options.cases:
            begin = time.monotonic()
            scored(case, frame, options, name).write.format("noop").mode("overwrite").save()
            rates[case].append(count / (time.monotonic() - begin))
    print("RESULT " + json.dumps(rates))
    spark.stop()


if __name__ == "__main__":
    main()
