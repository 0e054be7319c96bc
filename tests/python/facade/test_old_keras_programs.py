"""Programs in the shape of those that TensorFlowOnSpark 2.2.5 came with for Keras, against the facade."""

from __future__ import annotations

import argparse
import os
import random

import pytest
import tensorflow as tf

from tensorflowonspark import TFCluster, TFParallel, dfutil, pipeline

PIXELS = 16
CLASSES = 4


@pytest.fixture(scope="module")
def digits():
    """([pixels from 0 to 255], label): noise, bright in the quarter that the label says."""
    rng = random.Random(1)

    def image(label):
        return [
            rng.randrange(200, 256) if pixel // 4 == label else rng.randrange(60)
            for pixel in range(PIXELS)
        ]

    return [(image(n % CLASSES), n % CLASSES) for n in range(640)]


@pytest.fixture
def args(tmp_path):
    return argparse.Namespace(
        batch_size=16,
        epochs=3,
        cluster_size=2,
        export_dir=str(tmp_path / "export"),
        model_dir=str(tmp_path / "model"),
        output=str(tmp_path / "predictions"),
    )


def train(args, ctx, batches):
    """What the programs that train have in common: a strategy, a compiled model, callbacks, an export."""
    import tensorflow as tf

    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    dataset = batches().with_options(options)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(16, activation="relu", input_shape=(16,), name="pixels"),
                tf.keras.layers.Dense(4, activation="softmax", name="digit"),
            ]
        )
        model.compile(
            loss=tf.keras.losses.sparse_categorical_crossentropy,
            optimizer=tf.keras.optimizers.SGD(learning_rate=0.3),
            metrics=["accuracy"],
        )
    # 90 % of 640 rows, as the nodes need not get equally many.
    steps = int(640 / args.batch_size / ctx.num_workers * 0.9)
    callbacks = [
        tf.keras.callbacks.ModelCheckpoint(
            filepath=args.model_dir + "/weights-{epoch:04d}", save_weights_only=True
        )
    ]
    model.fit(x=dataset, epochs=args.epochs, steps_per_epoch=steps, callbacks=callbacks, verbose=0)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")


def fed_by_spark(args, ctx):
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, False)

    def rows():
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if len(batch) > 0:
                pixels, label = batch[0]
                yield np.array(pixels, np.float32) / 255.0, np.float32(label)
            else:
                return

    train(
        args,
        ctx,
        lambda: tf.data.Dataset.from_generator(
            rows, (tf.float32, tf.float32), (tf.TensorShape([16]), tf.TensorShape([]))
        ).batch(args.batch_size),
    )
    feed.terminate()


def fed_by_a_pipeline(args, ctx):
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, input_mapping=args.input_mapping)

    def rows():
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if len(batch["pixels_input"]) > 0:
                yield (
                    np.array(batch["pixels_input"][0], np.float32) / 255.0,
                    np.float32(batch["label"][0]),
                )
            else:
                return

    train(
        args,
        ctx,
        lambda: tf.data.Dataset.from_generator(
            rows, (tf.float32, tf.float32), (tf.TensorShape([16]), tf.TensorShape([]))
        ).batch(args.batch_size),
    )
    feed.terminate()


def reading_records(args, ctx):
    import os

    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf

    def parse(record):
        found = tf.io.parse_single_example(
            record,
            {
                "image": tf.io.FixedLenFeature([16], tf.int64),
                "label": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        return tf.cast(found["image"], tf.float32) / 255.0, tf.cast(found["label"], tf.float32)

    def batches():
        files = tf.data.Dataset.list_files(args.images + "/part-*", shuffle=False)
        mine = files.shard(ctx.num_workers, ctx.worker_num)
        return mine.interleave(tf.data.TFRecordDataset).map(parse).repeat().batch(args.batch_size)

    train(args, ctx, batches)


def infer(args, ctx):
    """Independent instances: each reads its share of the files and writes labels and predictions."""
    import numpy as np
    import tensorflow as tf

    serve = tf.saved_model.load(args.export_dir, tags="serve").signatures["serving_default"]
    files = tf.data.Dataset.list_files(args.images + "/part-*", shuffle=False).shard(
        ctx.num_workers, ctx.worker_num
    )
    tf.io.gfile.makedirs(args.output)
    with tf.io.gfile.GFile(f"{args.output}/part-{ctx.worker_num:05d}", "w") as output:
        for record in files.interleave(tf.data.TFRecordDataset):
            found = tf.io.parse_single_example(
                record,
                {
                    "image": tf.io.FixedLenFeature([16], tf.int64),
                    "label": tf.io.FixedLenFeature([], tf.int64),
                },
            )
            scores = serve(pixels_input=[tf.cast(found["image"], tf.float32) / 255.0])["digit"]
            output.write(f"{found['label'].numpy()} {np.argmax(scores)}\n")


def right(export_dir, digits):
    """Share of the digits that an exported model recognises."""
    serve = tf.saved_model.load(export_dir).signatures["serving_default"]
    scores = serve(pixels_input=tf.constant([[p / 255 for p in pixels] for pixels, _ in digits]))[
        "digit"
    ].numpy()
    return sum(int(row.argmax()) == label for row, (_, label) in zip(scores, digits)) / len(digits)


@pytest.fixture
def by_value():
    """Functions of this file travel whole: executors don't have it."""
    import sys

    import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def test_a_program_that_spark_feeds(spark, args, digits, by_value, leftovers):
    sc = spark.sparkContext
    images = sc.parallelize([pixels for pixels, _ in digits], 2)
    labels = sc.parallelize([label for _, label in digits], 2)
    cluster = TFCluster.run(
        sc,
        fed_by_spark,
        args,
        args.cluster_size,
        num_ps=0,
        tensorboard=False,
        input_mode=TFCluster.InputMode.SPARK,
        master_node="chief",
        log_dir=args.model_dir,
    )
    cluster.train(images.zip(labels), args.epochs)
    cluster.shutdown(grace_secs=1)
    assert right(args.export_dir, digits) > 0.95
    assert any(name.startswith("weights-0003") for name in os.listdir(args.model_dir))


@pytest.mark.long
def test_a_pipeline_then_instances_that_infer(spark, args, digits, by_value, tmp_path, leftovers):
    args.images = str(tmp_path / "tfr")
    dfutil.saveAsTFRecords(
        spark.createDataFrame(digits, ["image", "label"]).repartition(2), args.images
    )
    frame = dfutil.loadTFRecords(spark.sparkContext, args.images)
    estimator = (
        pipeline.TFEstimator(fed_by_a_pipeline, args)
        .setInputMapping({"image": "pixels_input", "label": "label"})
        .setModelDir(args.model_dir)
        .setExportDir(args.export_dir)
        .setClusterSize(2)
        .setTensorboard(False)
        .setEpochs(args.epochs)
        .setBatchSize(args.batch_size)
        .setGraceSecs(1)
    )
    model = estimator.fit(frame)
    model.setTagSet("serve").setSignatureDefKey("serving_default")
    model.setInputMapping({"image": "pixels_input"}).setOutputMapping({"digit": "prediction"})
    as_floats = frame.selectExpr("transform(image, p -> CAST(p / 255 AS FLOAT)) AS image")
    assert len(model.transform(as_floats).first().prediction) == CLASSES

    TFParallel.run(spark.sparkContext, infer, args, 2)
    answers = [
        line.split()
        for name in ("part-00000", "part-00001")
        for line in open(f"{args.output}/{name}").read().splitlines()
    ]
    assert len(answers) == len(digits)
    assert sum(label == prediction for label, prediction in answers) / len(answers) > 0.95


@pytest.mark.long
def test_a_program_that_reads_records_itself(spark, args, digits, by_value, tmp_path, leftovers):
    args.images = str(tmp_path / "tfr")
    dfutil.saveAsTFRecords(
        spark.createDataFrame(digits, ["image", "label"]).repartition(2), args.images
    )
    cluster = TFCluster.run(
        spark.sparkContext,
        reading_records,
        args,
        args.cluster_size,
        num_ps=0,
        input_mode=TFCluster.InputMode.TENSORFLOW,
        master_node="chief",
    )
    cluster.shutdown()
    assert right(args.export_dir, digits) > 0.95
