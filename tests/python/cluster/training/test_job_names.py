"""What Spark's pages call the jobs of a cluster, and the rows that they feed."""

from __future__ import annotations

import pytest

import tfos
from support.programs import nodes, training
from tfos.spark.sources import name_of


def jobs_of(spark, cluster):
    """The descriptions of its jobs, in the order in which they began; each once."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    known = [jobs.apply(at) for at in range(jobs.size())]
    # Other tests in this session may have run jobs that belong to no group.
    grouped = [job for job in known if job.jobGroup().isDefined()]
    ours = [job for job in grouped if cluster.cluster_id in job.jobGroup().get()]
    ours.sort(key=lambda job: job.jobId())
    return list(dict.fromkeys(job.description().get() for job in ours))


def frame_of(spark):
    return spark.range(20).alias("images")


def kept_by_the_program(spark):
    return spark.range(20).cache()


def rdd_of(spark):
    return spark.sparkContext.parallelize(range(20), 2).setName("images")


def computed_rdd_of(spark):
    return spark.sparkContext.parallelize(range(20), 2).map(lambda number: number)


@pytest.mark.parametrize(
    ("make", "name", "feed_jvm"),
    [
        (frame_of, "images", "on"),
        (frame_of, "images", "off"),
        (kept_by_the_program, None, "on"),
        (rdd_of, "images", "on"),
        (computed_rdd_of, None, "off"),
    ],
)
def test_jobs_say_what_they_feed(spark, tmp_path, make, name, feed_jvm):
    args = {"dir": str(tmp_path), "batch": 5}
    spark.range(1).count()  # A job of the program, which has no group.
    with tfos.run(spark, nodes.collect_rows, nodes=2, args=args, feed_jvm=feed_jvm) as cluster:
        cluster.train(make(spark), epochs=2)
    application = spark.sparkContext.appName
    assert jobs_of(spark, cluster) == [
        f"tfos: start 2 nodes of {application}",
        f"tfos: epoch 1 of 2 of {name or application}",
        f"tfos: epoch 2 of 2 of {name or application}",
    ]


def test_jobs_for_validation_and_of_epochs_that_nodes_replay_say_so(spark, tmp_path):
    args = {"dir": str(tmp_path), "batch": 4, "passes": 3, "queues": ["input", "validation"]}
    with tfos.run(spark, training.read_passes, nodes=1, args=args) as cluster:
        cluster.train(frame_of(spark), epochs=3, cache="memory", validation=frame_of(spark))
    assert jobs_of(spark, cluster)[1:] == [
        "tfos: epoch 1 of 3 of images",
        "tfos: epoch 1 of 3 of images, validation",
    ]


def test_rows_are_called_like_their_table(spark):
    frame = spark.range(5)
    frame.createOrReplaceTempView("pictures")
    pictures = spark.table("pictures")
    assert name_of(pictures, "mine") == "pictures"
    assert name_of(pictures.filter("id > 2").select("id").cache(), "mine") == "pictures"
    assert name_of(pictures.alias("cats").filter("id > 2"), "mine") == "cats"
    assert name_of(frame, "mine") == "mine"
    assert name_of(pictures.join(frame.alias("others"), "id"), "mine") == "mine"


def test_an_rdd_is_called_by_its_name_or_its_files(spark):
    sc = spark.sparkContext
    assert name_of(sc.textFile("/data/images/"), "mine") == "images"
    assert name_of(sc.parallelize([1]).setName("numbers"), "mine") == "numbers"
    assert name_of(sc.parallelize([1]), "mine") == "mine"
    computed = sc.parallelize([1]).map(lambda number: number)
    assert name_of(computed, "mine") == "mine"
    assert computed._jrdd_val is None, "Spark was not asked to prepare it"
