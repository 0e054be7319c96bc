"""Hadoop's file systems in instances and exports of old programs, configured as the session is."""

import json
import os

import cloudpickle
import pytest

from tensorflowonspark import TFCluster, TFParallel, pipeline
from tfos import parallel
from tfos.base.programs import program_pickle
from tfos.files import hadoop_settings
from tfos.parallel import process


@pytest.mark.parametrize("gpu_count", [0, 1])
def test_an_instance_reaches_what_the_session_reaches(
    spark, mounted_path, tmp_path, gpus_of_executors, gpu_count
):
    gpus_of_executors(gpu_count)
    (tmp_path / "in").write_text("read")

    def program(args, ctx):
        import tensorflow as tf

        from tfos.files.access import access_for

        access, path = access_for(f"{mounted_path}/in")
        with tf.io.gfile.GFile(f"{mounted_path}/in") as file:
            return file.read(), access.status(path).size, len(ctx.gpus)

    results = TFParallel.run(spark.sparkContext, program, None, 1, use_barrier=False)
    assert results == [("read", 4, gpu_count)]


def test_the_settings_of_an_instance_with_gpus_are_for_its_process_alone(spark):
    given = {"TFOS_HADOOP_OF_THE_SESSION": "a", "PATH": "b"}

    def task(rows):
        instance = parallel.Instance(0, 1, ("0",), "file://", os.getcwd(), ())
        program = program_pickle.dumps(lambda instance: {name: os.environ[name] for name in given})
        outcome = process.run(program, instance, (), given)
        yield outcome.pickled, os.environ["PATH"], "TFOS_HADOOP_OF_THE_SESSION" in os.environ

    [(seen, path, stays)] = spark.sparkContext.parallelize([0], 1).mapPartitions(task).collect()
    assert cloudpickle.loads(seen) == {"TFOS_HADOOP_OF_THE_SESSION": "a", "PATH": path}
    assert not stays


def test_an_export_reaches_what_the_session_reaches(spark, mounted_path, tmp_path, leftovers):
    def export(args):
        import tensorflow as tf

        with tf.io.gfile.GFile(args.export_dir, "w") as file:
            file.write("exported")

    estimator = (
        pipeline.TFEstimator(lambda args, ctx: None, {}, export_fn=export)
        .setInputMode(TFCluster.InputMode.TENSORFLOW)
        .setExportDir(f"{mounted_path}/out")
        .setGraceSecs(0)
    )
    estimator.fit(spark.range(1))
    assert (tmp_path / "out").read_text() == "exported"


def test_what_an_instance_starts_inherits_no_secrets(monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.delitem(os.environ, hadoop_settings.PROPERTIES_VARIABLE, raising=False)
    monkeypatch.setattr(hadoop_settings, "_adopted", {})
    given = json.dumps({"fs.s3a.secret.key": "x", "fs.s3a.endpoint": "of an instance"})
    task = parallel._Task(
        lambda instance: os.environ[hadoop_settings.PROPERTIES_VARIABLE],
        1,
        0,
        False,
        "file://",
        1,
        False,
        {hadoop_settings.PROPERTIES_VARIABLE: given},
    )
    (seen,) = cloudpickle.loads(cloudpickle.dumps(task))(0, [])
    assert json.loads(cloudpickle.loads(seen)) == {"fs.s3a.endpoint": "of an instance"}
