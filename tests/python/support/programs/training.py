"""Programs that train on what Spark feeds, through datasets; in a module that nodes can import, as a
user's would be."""

from __future__ import annotations

import json
import pathlib
import pickle


def fit_dataset(ctx):
    """Trains on the feed for one pass and notes the rows and steps that it took."""
    import tensorflow as tf

    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    spec = [tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.float32)]
    model.fit(ctx.dataset(8, spec=spec), verbose=0)
    steps = int(model.optimizer.iterations)
    rows = ctx._feed_source.server.counters()["rows"]
    pathlib.Path(ctx.args["dir"], f"fit-{ctx.node_id}").write_bytes(pickle.dumps((rows, steps)))


def read_passes(ctx):
    """Reads passes over the dataset of each queue in turn, and stores the labels of every batch as
    JSON. Padding is left out."""
    import tensorflow as tf

    args = ctx.args
    spec = None
    if args.get("spec"):
        spec = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.int64)}
    datasets = [
        ctx.dataset(args["batch"], queue=queue, remainder=args.get("remainder"), spec=spec)
        for queue in args["queues"]
    ]
    passes = []
    for _ in range(args["passes"]):
        for dataset in datasets:
            passes.append([])
            for element in dataset:
                labels, mask = (
                    (element[0][1], element[1])
                    if (args.get("remainder") == "pad")
                    else (element[1], None)
                )
                labels = labels.numpy()
                if mask is not None:
                    assert len(labels) == args["batch"]
                    labels = labels[mask.numpy() > 0]
                passes[-1].append(labels.tolist())
    path = pathlib.Path(ctx.args["dir"], f"passes-{ctx.node_id}")
    path.write_text(json.dumps(passes))


def train_in_step(ctx):
    """Trains with a strategy that waits for all nodes in every step; stores the steps of each epoch
    and the weights as JSON."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    padded = ctx.args["remainder"] == "pad"
    dataset = strategy.distribute_datasets_from_function(
        lambda _context: ctx.dataset(4, label="y", remainder=ctx.args["remainder"]).prefetch(2)
    )
    with strategy.scope():
        weights = tf.Variable(tf.zeros([2]))

    def gradient(x, y, mask):
        with tf.GradientTape() as tape:
            error = tf.linalg.matvec(x, weights) - tf.cast(y, tf.float32)
            loss = tf.reduce_sum(mask * error**2)
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, tape.gradient(loss, weights))
        weights.assign_sub(1e-6 * total)

    @tf.function
    def step(batch):
        x, y, *mask = batch
        strategy.run(gradient, args=(x, y, mask[0] if padded else tf.ones([4])))

    steps = []
    for _ in range(ctx.args["epochs"]):
        steps.append(0)
        for batch in dataset:
            step(batch)
            steps[-1] += 1
    path = pathlib.Path(ctx.args["dir"], f"fit-{ctx.node_id}")
    path.write_text(json.dumps({"steps": steps, "weights": weights.numpy().tolist()}))
