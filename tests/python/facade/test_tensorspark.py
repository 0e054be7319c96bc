"""The tensorspark facade: which weights come of which pushes, and its MNIST program on digits."""

from __future__ import annotations

import gzip
import importlib
import os
import signal
import struct

import numpy as np
import pytest
import tensorflow as tf

from support.spark.errors import SPARK_ERRORS
from tensorspark.core import spark_session as sps
from tensorspark.core import weight_combiner as comb
from tfos.errors import BadInputError, TfosError
from tfos.examples import digits
from tfos.parameter_server import connection, rules

tf1 = tf.compat.v1
tf1.enable_eager_execution()  # Other tests of this process compute eagerly; the import switched it off.


def adding_graph():
    """A step that adds the sum of its batch to `total` and 1 to `count`."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], name="x")
        scale = tf1.placeholder(tf.float32, [None], name="scale")
        total = tf1.get_variable("total", [3], initializer=tf1.zeros_initializer())
        count = tf1.get_variable("count", [], initializer=tf1.zeros_initializer(), dtype=tf.float64)
        step = tf.group(
            tf1.assign_add(total, tf.reduce_sum(x * scale) * tf.ones([3])), tf1.assign_add(count, 1)
        )
        session = tf1.Session()
        session.run(tf1.global_variables_initializer())
    return session, step, [x.name, "scale"], [total, count]


def test_a_metric_needs_no_local_variables_initializer(spark, leftovers):
    """Most programs of TF 1 only run that of the global ones."""
    session, step, feeds, parameters = adding_graph()
    with session.graph.as_default():
        _, update = tf1.metrics.mean(session.graph.get_tensor_by_name(feeds[0]))
        seen = tf1.get_variable(
            "seen",
            [],
            collections=[tf1.GraphKeys.LOCAL_VARIABLES],
            initializer=tf1.zeros_initializer(),
        )
        session.run(seen.initializer)
        session.run(tf1.assign(seen, 7))
        with tf1.control_dependencies([tf1.assert_equal(seen, 7.0)]):  # unless workers lack it
            checked = tf.identity(seen)
    spark_session = sps.SparkSession(spark.sparkContext, session, server_port=0, batch_size=3)
    rows = spark.sparkContext.parallelize([(1.0, 2.0)] * 6, 2)
    combiner = comb.DeltaWeightCombiner()
    spark_session.run([step, update, checked], rows, feeds, parameters, combiner)
    assert session.run(parameters[1]) == 2


def test_a_global_variable_without_a_value_is_an_error(spark):
    session, step, feeds, parameters = adding_graph()
    with session.graph.as_default():
        tf1.get_variable("forgotten", [], initializer=tf1.zeros_initializer())
    spark_session = sps.SparkSession(spark.sparkContext, session, server_port=0)
    rows = spark.sparkContext.parallelize([(1.0, 2.0)], 1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="forgotten"):
        spark_session.run(step, rows, feeds, parameters)


def version_of(spark_session):
    """How many pushes its server has combined."""
    process = spark_session._training.server
    like = [np.zeros(3, np.float32), np.zeros((), np.float64)]
    rule, _ = rules.make_rule("delta", None, 0)
    client = connection.connect(
        [process.server], like, rule, connection.Worker(9, "the test", False, 1), process.key
    )
    return client.version


def test_changes_are_pushed_every_interval_and_at_the_end(spark, leftovers):
    sc = spark.sparkContext
    session, step, feeds, parameters = adding_graph()
    spark_session = sps.SparkSession(
        sc,
        session,
        user="somebody",
        name="adding",
        server_host="localhost",
        server_port=0,
        sync_interval=2,
        batch_size=3,
    )
    for partitions, rows, pushes in ((1, 7, 2), (1, 12, 2), (2, 14, 4), (3, 2, 2)):
        # The batches of all partitions count; an empty partition has none.
        before = session.run(parameters)
        data = sc.parallelize([(1.0, 2.0)] * rows, partitions)
        spark_session.run(
            step,
            feed_rdd=data,
            feed_name_list=feeds,
            param_list=parameters,
            weight_combiner=comb.DeltaWeightCombiner(),
            server_reusable=True,
        )
        total, count = session.run(parameters)
        batches = sum(-(-size // 3) for size in data.glom().map(len).collect())
        assert (total - before[0]).tolist() == [2.0 * rows] * 3
        assert count - before[1] == batches
        assert version_of(spark_session) == pushes
    spark_session.stop_param_server()


@pytest.mark.parametrize(
    "combiner, expected",
    [
        # By hand: a worker that exchanges after each batch of one row of 1.
        (comb.MeanWeightCombiner(4), [0.25, 0.5]),
        (comb.UpdateMeanWeightCombiner(None), [1, 1.5]),
        (comb.DeltaWeightCombiner(), [1, 2]),
        (None, [1, 2]),  # The mean of one.
    ],
)
def test_combiners(spark, combiner, expected):
    for rows, value in enumerate(expected, start=1):
        session, step, feeds, parameters = adding_graph()
        with sps.SparkSession(
            spark.sparkContext, session, server_port=0, sync_interval=1, batch_size=1
        ) as spark_session:
            data = spark.sparkContext.parallelize([(1.0, 1.0)] * rows, 1)
            spark_session.run(step, data, feeds, parameters, combiner, False, False)
            assert session.run(parameters[0]).tolist() == [value] * 3


class Clipped(comb.MeanWeightCombiner):
    """Calculates otherwise than what it inherits from."""

    def compute(self, origin_weight, new_weight, worker_id=-1, name=None):
        return min(1, new_weight)


def test_a_combiner_that_the_server_does_not_know_is_refused(spark):
    session, step, feeds, parameters = adding_graph()
    spark_session = sps.SparkSession(spark.sparkContext, session, server_port=0)
    rows = spark.sparkContext.parallelize([(1.0, 1.0)], 1)
    with pytest.raises(BadInputError, match="not Clipped: the server is native"):
        spark_session.run(step, rows, feeds, parameters, Clipped(2))


def test_the_order_of_the_first_version_means_what_it_meant(spark, leftovers):
    session, step, feeds, parameters = adding_graph()
    sc = spark.sparkContext
    first = sps.SparkSession(sc, session, "somebody", "adding", "localhost", 0, 2, 3)
    rows = sc.parallelize([(1.0, 2.0)] * 12, 1)
    first.run(step, rows, feeds, parameters, comb.DeltaWeightCombiner())
    # The server is kept. Four batches of three rows make two exchanges.
    assert version_of(first) == 2
    first.stop_param_server()
    keywords = sps.SparkSession(sc=sc, sess=session, server_port=0)
    later = sps.SparkSession(sc, session, "somebody", "adding", "", "localhost", 0)
    assert (keywords._is_first_version, later._is_first_version) == (True, False)


@pytest.mark.parametrize(
    ("target", "host", "is_first"),
    [("driver-host", "driver-host", True), ("grpc://h:1", None, False), ("local", None, False)],
)
def test_a_host_in_the_first_versions_place_is_the_servers(spark, target, host, is_first):
    session, *_ = adding_graph()
    made = sps.SparkSession(spark.sparkContext, session, "me", "adding", target, server_port=0)
    assert made._training._options.host == host
    assert made._is_first_version == is_first


@pytest.mark.parametrize("keeps", [True, False])
def test_a_keyword_holds_beside_the_first_versions_order(spark, keeps, leftovers):
    session, step, feeds, parameters = adding_graph()
    rows = spark.sparkContext.parallelize([(1.0, 1.0)] * 2, 1)
    made = {"spark_context" if keeps else "sc": spark.sparkContext}
    with sps.SparkSession(session=session, server_port=0, **made) as spark_session:
        combiner = comb.MeanWeightCombiner(4)
        spark_session.run(step, rows, feeds, parameters, combiner, True, server_reusable=keeps)
        assert (spark_session._training.server is not None) == keeps


def test_variables_made_from_one_tensor_get_values_of_their_own():
    from tfos.parameter_server.session.graph import load

    with tf1.Graph().as_default(), tf1.Session() as session:
        initial = tf1.zeros([2])
        variables = [tf1.Variable(initial) for _ in range(2)]
        load(session, variables, [np.array([1, 2], np.float32), np.array([3, 4], np.float32)])
        assert np.array_equal(session.run(variables), [[1, 2], [3, 4]])


def test_combiners_compute_the_same(spark):
    mean, update = comb.MeanWeightCombiner(4), comb.UpdateMeanWeightCombiner()
    assert mean.compute(0.25, 1.25) == 0.5
    assert [update.compute(100, 1), update.compute(1, 2)] == [1, 1.5]
    delta = comb.DeltaWeightCombiner()
    assert delta.compute(0, 2, worker_id=1, name="a") == 2
    assert delta.compute(2, 3, worker_id=2, name="a") == 5
    assert delta.compute(5, 2, worker_id=2, name="a") == 2
    with pytest.raises(ValueError, match="whose"):
        delta.compute(0, 1)


def test_the_server_is_kept_if_asked(spark, leftovers):
    session, step, feeds, parameters = adding_graph()
    data = spark.sparkContext.parallelize([(1.0, 1.0)] * 2, 1)
    spark_session = sps.SparkSession(spark.sparkContext, session, server_port=0)
    run = {
        "feed_rdd": data,
        "feed_name_list": feeds,
        "param_list": parameters,
        "server_reusable": True,
    }
    spark_session.run(step, **run)
    kept = spark_session._training.server.pid
    spark_session.run(step, **run)
    assert spark_session._training.server.pid == kept
    os.kill(kept, signal.SIGKILL)
    spark_session._training.server._process.wait()
    spark_session.run(step, **run)
    assert spark_session._training.server.pid != kept, "one that has ended is replaced"
    other = sps.SparkSession(
        spark.sparkContext, session, server_port=spark_session._training.server.server.port
    )
    with pytest.raises(TfosError, match="choose another port"):
        other.run(step, **run)
    spark_session.run(step, **{**run, "server_reusable": False})
    assert spark_session._training.server is None


def test_what_goes_wrong_is_raised(spark, leftovers):
    session, step, feeds, parameters = adding_graph()
    sc = spark.sparkContext
    spark_session = sps.SparkSession(sc, session, server_port=0)
    with pytest.raises(SPARK_ERRORS, match="a row has 3 fields for 2 placeholders"):
        spark_session.run(step, sc.parallelize([(1.0, 1.0, 1.0)], 1), feeds, parameters)
    with pytest.raises(BadInputError, match="feed_name_list and param_list"):
        spark_session.run(step, sc.parallelize([(1.0, 1.0)], 1))

    class Mine(comb.WeightCombiner):
        def compute(self, origin_weight, new_weight, worker_id=-1, name=None):
            return new_weight

    with pytest.raises(BadInputError, match="weight_combiner must be one of .*, not Mine"):
        spark_session.run(step, sc.parallelize([(1.0, 1.0)], 1), feeds, parameters, Mine())
    # Without an RDD it is the session's own run.
    assert spark_session.run(parameters[1]) == 0


def test_the_mnist_program_reaches_its_accuracy(spark, leftovers):
    """As the old package's readme has it, with scikit-learn's digits for MNIST."""

    def in_two_columns(rows):
        return [
            (np.asarray(pixels, np.float32), np.eye(10, dtype=np.float32)[label])
            for pixels, label in rows
        ]

    train, test = map(in_two_columns, digits.load())
    sc = spark.sparkContext
    pixels = len(train[0][0])
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, pixels])
        W = tf1.Variable(tf.zeros([pixels, 10]))
        b = tf1.Variable(tf.zeros([10]))
        y = tf.nn.softmax(tf.matmul(x, W) + b)
        y_ = tf1.placeholder(tf.float32, [None, 10])
        cross_entropy = tf.reduce_mean(-tf1.reduce_sum(y_ * tf1.log(y), reduction_indices=[1]))
        train_step = tf1.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
        init = tf1.initialize_all_variables()
        sess = tf1.Session()
        sess.run(init)

        feed_name_list = [x.name, y_.name]
        param_list = [W, b]
        image_label_rdd = sc.parallelize(train * 5, 2).cache()
        spark_sess = sps.SparkSession(
            sc,
            sess,
            user="somebody",
            name="spark_mnist",
            server_host="localhost",
            server_port=0,
            sync_interval=100,
            batch_size=100,
        )
        for _ in range(2):
            spark_sess.run(
                train_step,
                feed_rdd=image_label_rdd,
                feed_name_list=feed_name_list,
                param_list=param_list,
                shuffle_within_partition=True,
            )
        spark_sess.stop_param_server()

        correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
        accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
        images, labels = map(np.stack, zip(*test))
        assert sess.run(accuracy, {x: images, y_: labels}) >= 0.88


def test_its_own_example_reads_mnists_files(spark, tmp_path, monkeypatch, capsys, leftovers):
    mnist = importlib.import_module("tensorspark.example.spark_mnist")
    monkeypatch.setattr(mnist, "data_dir", str(tmp_path))
    monkeypatch.setattr(mnist, "OTHER_DATA_DIR", str(tmp_path / "other"))
    for part, rows in (("train", 200), ("t10k", 40)):
        labels = np.arange(rows, dtype=np.uint8) % 10
        images = np.zeros((rows, 28, 28), np.uint8)
        for image, label in zip(images, labels):
            image[2 * label : 2 * label + 2] = 255  # A bar whose height tells the digit.
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">ii", 0x801, rows) + labels.tobytes()
        )
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">iiii", 0x803, rows, 28, 28) + images.tobytes())
        )
    session = mnist.train(
        sc=spark.sparkContext,
        server_port=0,
        sync_interval=4,
        batch_size=20,
        num_partition=2,
        num_epoch=2,
    )
    session.close()
    assert float(capsys.readouterr().out.split()[-1]) == 1.0
    monkeypatch.setattr(mnist, "data_dir", str(tmp_path / "nowhere"))
    with pytest.raises(BadInputError, match="set tensorspark.example.spark_mnist.data_dir"):
        mnist.read("train", "file://")
