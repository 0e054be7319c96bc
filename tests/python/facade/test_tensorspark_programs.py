"""Programs of the old tensorspark as they were: with the import of TensorFlow changed, and nothing else."""

from __future__ import annotations

import os
import pathlib
import struct
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from support.files.webhdfs import WebHdfs
from tensorspark.core import spark_session as sps
from tensorspark.core import weight_combiner as comb
from tfos.errors import BadInputError

tf1 = tf.compat.v1
tf1.enable_eager_execution()  # Other tests of this process compute eagerly; the import switched it off.

BOUND_SECONDS = 300
PYSPARK = pathlib.Path(sys.executable).parent / "pyspark"

#: In the shape of the old readme's program, which builds its graph at module level.
README_PROGRAM = """
import numpy as np
from pyspark import SparkConf, SparkContext
import tensorflow.compat.v1 as tf
import tensorspark.core.spark_session as sps

sc = SparkContext(conf=SparkConf().setMaster("local[2]").setAppName("readme"))
rows = [(np.eye(4)[n % 4], np.eye(2)[n % 2]) for n in range(400)]
image_label_rdd = sc.parallelize(rows, 2)

x = tf.placeholder(tf.float32, [None, 4])
W = tf.Variable(tf.zeros([4, 2]))
b = tf.Variable(tf.zeros([2]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
y_ = tf.placeholder(tf.float32, [None, 2])
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
init = tf.initialize_all_variables()
sess = tf.Session()
sess.run(init)

feed_name_list = [x.name, y_.name]
param_list = [W, b]
spark_sess = sps.SparkSession(sc, sess, user='liangfengsid', name='spark_mnist', server_host='localhost', server_port=0, sync_interval=10, batch_size=10)
spark_sess.run(train_step, feed_rdd=image_label_rdd, feed_name_list=feed_name_list, param_list=param_list, shuffle_within_partition=True)
right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1)), tf.float32))
print("accuracy", sess.run(right, {x: np.eye(4), y_: np.eye(2)[[0, 1, 0, 1]]}))
spark_sess.close()
"""


@pytest.mark.long
def test_the_readmes_program_with_only_its_import_changed(tmp_path):
    (tmp_path / "program.py").write_text(README_PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert "accuracy 1.0" in done.stdout.splitlines()


def test_only_programs_lose_eager_execution():
    """Executors' Python workers, which compute other things too, import no module that switches it off."""
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import tensorflow as tf; import tfos.parameter_server.session.worker; print(tf.executing_eagerly());"
            "import tensorspark.core.spark_session; print(tf.executing_eagerly());"
            "tf.compat.v1.enable_eager_execution(); print(int(tf.constant(3) + 1))",
        ],
        text=True,
        capture_output=True,
        check=True,
        timeout=BOUND_SECONDS,
    ).stdout
    assert said.split() == ["True", "False", "4"]


def write_digits(put):
    """MNIST's four files under the old package's names: bars whose height tells the digit."""
    for part, rows in (("train", 200), ("t10k", 40)):
        labels = np.arange(rows, dtype=np.uint8) % 10
        images = np.zeros((rows, 28, 28), np.uint8)
        for image, label in zip(images, labels):
            image[2 * label : 2 * label + 2] = 255
        put(f"{part}-labels-idx1-ubyte", struct.pack(">ii", 0x801, rows) + labels.tobytes())
        put(
            f"{part}-images-idx1-ubyte",
            struct.pack(">iiii", 0x803, rows, 28, 28) + images.tobytes(),
        )


@pytest.mark.long
def test_its_example_in_a_shell_reads_what_was_put_to_hdfs(hdfs):
    files = WebHdfs(hdfs)
    files.make_directory("/data", owner="somebody")
    write_digits(lambda name, content: files.put(f"/data/{name}", content))
    typed = (
        "import tensorspark.example.spark_mnist as mnist\n"
        "session = mnist.train(sc=sc, user='somebody', name='mnist', server_host='localhost', server_port=0, "
        "sync_interval=4, batch_size=20, num_partition=2, num_epoch=2)\n"
    )
    done = subprocess.run(
        [PYSPARK, "--master", "local[2]", "--deploy-mode", "client"],
        input=typed,
        text=True,
        capture_output=True,
        timeout=BOUND_SECONDS,
        env={
            **os.environ,
            "HADOOP_CONF_DIR": str(hdfs.configuration),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON_OPTS": "-i",
        },
    )  # A shell, though nobody types.
    assert "1.0" in done.stdout.split(), f"{done.stdout}\n{done.stderr[-6000:]}"


@pytest.fixture
def counting(spark):
    """A step that counts its batches and sums their rows, with what a run needs."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], name="x")
        total = tf1.get_variable("total", [], initializer=tf1.zeros_initializer())
        step = tf1.assign_add(total, tf.reduce_sum(x)).op
        session = tf1.Session()
        session.run(tf1.global_variables_initializer())
    rows = spark.sparkContext.parallelize([(1.0,)] * 6, 2)
    return types.SimpleNamespace(
        session=session, step=step, rows=rows, total=total, x=x, data=(rows, [x.name], [total])
    )


def test_constructors_of_both_kinds(spark, counting, leftovers):
    sc, session = spark.sparkContext, counting.session
    delta = comb.DeltaWeightCombiner()
    made = [
        sps.SparkSession(sc, session, "user", "name", "", "localhost", 0, None, None, 3, 10),
        sps.SparkSession(
            spark_context=sc,
            session=session,
            user=None,
            target="",
            server_port=0,
            graph=session.graph,
            config=None,
        ),
        sps.SparkSession(sc=sc, sess=session, server_port=0),
    ]
    for number, spark_session in enumerate(made, start=1):
        spark_session.run(counting.step, *counting.data, weight_combiner=delta)
        assert session.run(counting.total) == 6 * number
        is_first_version = number == 3  # It kept its server unless it was told otherwise.
        assert (spark_session._training.server is not None) == is_first_version
        spark_session.close()
    for arguments in ({"sc": sc}, {"session": session}):
        with pytest.raises(BadInputError, match=r"SparkSession\(spark_context, session\)"):
            sps.SparkSession(**arguments)


def test_runs_of_both_kinds(spark, counting, leftovers):
    delta = comb.DeltaWeightCombiner()
    with sps.SparkSession(spark.sparkContext, counting.session, server_port=0) as spark_session:
        for number, arguments in enumerate(
            (
                (None, delta, False, None, None, True),  # feed_dict is the fifth.
                (delta, True, True),
                (delta,),
            ),
            start=1,
        ):
            spark_session.run(counting.step, *counting.data, *arguments)
            assert counting.session.run(counting.total) == 6 * number
            assert (spark_session._training.server is not None) == (number < 3)
        assert spark_session.run(
            counting.total + counting.x, None, None, None, {counting.x: [1.0]}
        ).tolist() == [19.0]
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        spark_session.run(counting.total, options=options, run_metadata=metadata)
        assert metadata.step_stats.dev_stats
        options = tf1.RunOptions(timeout_in_ms=60_000)
        spark_session.run(
            counting.step,
            *counting.data,
            weight_combiner=delta,
            options=options,
            run_metadata=metadata,
        )
        spark_session.close()
        assert counting.session.run(counting.total) == 24, "close leaves the program's session open"
