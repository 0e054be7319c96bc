"""Hadoop's file systems in instances and exports of old programs, configured as the session is."""

import json
import os

import cloudpickle
import pytest

from tensorflowonspark import TFCluster, TFParallel, pipeline
from tfos import parallel
from tfos.files import hadoop_settings


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
