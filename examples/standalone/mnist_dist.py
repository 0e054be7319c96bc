"""What each node of mnist_spark.py runs: a network of TensorFlow 1, its weights on a parameter server.

Workers compute each its own steps, without waiting for each other. In mode `train` the chief worker
leaves checkpoints in `--model`, in mode `inference` each restores the last one.
"""

import datetime

CLASSES = 10
HIDDEN = 128


class Network:
    """The graph of one worker."""

    def __init__(self, tf1, device, pixels):
        self.pixels = tf1.placeholder(tf1.float32, [None, pixels], "pixels")
        self.labels = tf1.placeholder(tf1.float32, [None, CLASSES], "labels")
        with tf1.device(device):
            self.global_step = tf1.train.get_or_create_global_step()
            hidden = tf1.nn.relu(_layer(tf1, "hidden", self.pixels / 255.0, HIDDEN))
            scores = _layer(tf1, "scores", hidden, CLASSES)
            self.loss = tf1.losses.softmax_cross_entropy(self.labels, scores)
            self.step = tf1.train.AdagradOptimizer(0.05).minimize(self.loss, self.global_step)
            self.label = tf1.argmax(self.labels, 1)
            self.prediction = tf1.argmax(scores, 1)
            right = tf1.cast(tf1.equal(self.label, self.prediction), tf1.float32)
            self.accuracy = tf1.reduce_mean(right)
            tf1.summary.scalar("loss", self.loss)
            tf1.summary.scalar("accuracy", self.accuracy)


def _layer(tf1, name, inputs, units):
    with tf1.variable_scope(name):
        weights = tf1.get_variable("weights", [inputs.shape[1], units])
        bias = tf1.get_variable("bias", [units], initializer=tf1.zeros_initializer())
        return tf1.linalg.matmul(inputs, weights) + bias


def map_fun(args, ctx):
    """InputMode.SPARK: rows of ([pixels from 0 to 255], [one-hot label]) come from Spark."""
    from tensorflowonspark import TFNode

    feed = None if ctx.job_name == "ps" else ctx.get_data_feed(args.mode == "train")

    def batches():
        while not feed.should_stop():
            rows = feed.next_batch(args.batch_size)
            if rows:
                yield tuple(zip(*rows, strict=True))

    def answer(labels, predictions):
        feed.batch_results(
            [
                f"{datetime.datetime.now().isoformat()} Label: {label}, Prediction: {prediction}"
                for label, prediction in zip(labels, predictions, strict=True)
            ]
        )

    run(args, ctx, batches, answer, summaries=TFNode.hdfs_path(ctx, f"{args.model}/train"))
    if feed is not None and args.mode == "train":
        feed.terminate()  # What is left of the rows when there were enough steps.


def run(args, ctx, batches, answer, summaries=None):
    """Takes part in the cluster; a worker trains with `batches`, or passes labels and predictions to
    `answer`. The chief worker leaves its summaries in `summaries`, by default beside the checkpoints."""
    import tensorflow as tf

    from tensorflowonspark import TFNode

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    cluster, server = TFNode.start_cluster_server(ctx, 1, args.rdma)
    if ctx.job_name == "ps":
        server.join()  # Does not return; tfos ends this node once the workers have finished.

    worker = f"/job:worker/task:{ctx.task_index}"
    network = Network(
        tf1, tf1.train.replica_device_setter(worker_device=worker, cluster=cluster), args.pixels
    )
    training = args.mode == "train"
    hooks = []
    if training:
        hooks.append(tf1.train.StopAtStepHook(last_step=args.steps))
    if training and ctx.task_index == 0:
        hooks.append(
            tf1.train.SummarySaverHook(
                save_steps=20,
                output_dir=summaries or TFNode.hdfs_path(ctx, args.model),
                summary_op=tf1.summary.merge_all(),
            )
        )
    with tf1.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=ctx.task_index == 0,
        checkpoint_dir=TFNode.hdfs_path(ctx, args.model),
        hooks=hooks,
        save_checkpoint_steps=100 if training else None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        # A worker talks to the parameter server only: others may have finished and be gone.
        config=tf1.ConfigProto(device_filters=["/job:ps", worker]),
    ) as session:
        done = 0
        for pixels, labels in batches():
            if session.should_stop():
                break
            rows = {network.pixels: pixels, network.labels: labels}
            if training:
                _, done, loss = session.run([network.step, network.global_step, network.loss], rows)
                ctx.node.report(step=int(done), loss=loss)
            else:
                answer(*session.run([network.label, network.prediction], rows))
