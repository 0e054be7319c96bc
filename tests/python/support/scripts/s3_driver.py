"""The driver of test_s3.py: DIRECTORY. The session alone knows of the S3 and of its keys."""

from __future__ import annotations

import json
import os
import pathlib
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession

import tfos
from support.programs import s3 as program
from tfos.errors import NodeFailedError
from tfos.ml import Model


def session():
    properties = json.loads(os.environ.pop("TFOS_HADOOP_PROPERTIES"))
    schemes = os.environ.pop("TFOS_HADOOP_SCHEMES")
    jars = os.environ["HADOOP_CLASSPATH"]
    # Spark has another Netty. `bundle`, which programs take, has one of its own in it.
    of_jvms = os.pathsep.join(
        str(jar)
        for jar in pathlib.Path(jars).parent.iterdir()
        if not jar.name.startswith("netty-") or "nio-client" in jar.name
    )
    return (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", tfos.jar_path())
        .config("spark.driver.extraClassPath", of_jvms)
        .config("spark.executor.extraClassPath", of_jvms)
        .config("spark.executorEnv.HADOOP_CLASSPATH", jars)
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.tfos.hadoop.schemes", schemes)
        .config(map={f"spark.hadoop.{name}": value for name, value in properties.items()})
        .getOrCreate()
    )


def main(directory):
    spark = session()
    rows = spark.range(program.ROWS).selectExpr(
        "array(float(id % 7 / 7), float(id % 11 / 11)) AS x", "float(id % 7 / 7) AS y"
    )
    rows.write.format("tfrecord").save(f"{directory}/records")
    read = spark.read.format("tfrecord").load(f"{directory}/records")
    assert sorted(read.select("x", "y").collect()) == sorted(rows.collect())
    print("records", flush=True)

    def run(dies):
        with tfos.run(
            spark, program.train, nodes=2, args=(directory, dies), input_mode="tensorflow"
        ) as cluster:
            return cluster.wait(timeout=120)

    run_of = f"{directory}/run"
    assert tfos.last_checkpoint(run_of) is None
    try:
        run(dies=True)
        raise AssertionError("no node was killed")
    except NodeFailedError:
        print("killed", flush=True)
    assert tfos.last_checkpoint(run_of)[1:] == program.MOMENT
    assert run(dies=False) == [list(range(program.MOMENT[0], program.EPOCHS))] * 2
    assert tfos.last_checkpoint(run_of)[1:] == (program.EPOCHS, 0)
    print("resumed", flush=True)

    assert Model(modelDir=f"{directory}/model").transform(rows).count() == program.ROWS
    print("predicted", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
