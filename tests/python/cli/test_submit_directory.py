"""`tfos submit --env-directory`: a directory that Hadoop's client serves, as Spark's configuration has
it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from support.environments import tiny_environment
from tfos.base import executable
from tfos.spark import installation


def test_nothing_is_packed_for_a_directory_that_nobody_serves(tmp_path):
    done = submitted(
        tmp_path, "--env-directory", "s3a://b/e", "--python-env", tiny_environment(tmp_path)
    )
    assert done.returncode == 2
    assert "no file system is configured for s3a://" in done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.long
def test_an_environment_goes_where_the_command_line_says_how(tmp_path, s3):
    given = json.loads(s3.environment["TFOS_HADOOP_PROPERTIES"])
    confs = [f"spark.hadoop.{name}={value}" for name, value in given.items()]
    words = [word for conf in confs for word in ("--conf", conf)]
    words += ["--conf", "spark.tfos.hadoop.schemes=s3a", "--env-directory", f"{s3.uri}/envs"]
    words += ["--python-env", tiny_environment(tmp_path)]
    jars = {"HADOOP_CLASSPATH": s3.environment["HADOOP_CLASSPATH"]}
    done = submitted(tmp_path, *words, **jars)
    assert done.returncode == 0, done.stderr
    archives = list((tmp_path / "cache/tfos/environments").iterdir())
    (name,) = [archive.name for archive in archives]
    assert f"{s3.uri}/envs/{name}#environment" in done.stdout
    status, content = s3.ask("GET", f"/tfos/envs/{name}")
    assert (status, content) == (200, archives[0].read_bytes())
    assert "variable TFOS_HADOOP" not in done.stdout, "Spark has its own configuration"


def submitted(tmp_path, *words, **variables):
    """What `tfos submit` does in a process of its own, with Spark's jars and a spark-submit that
    prints its words and variables."""
    spark_submit = tmp_path / "spark/bin/spark-submit"
    spark_submit.parent.mkdir(parents=True)
    spark_submit.write_text('#!/bin/sh\necho "$@"\nenv | sed "s/^/variable /"\n')
    spark_submit.chmod(0o755)
    (tmp_path / "spark/jars").symlink_to(installation.pyspark_home() / "jars")
    (tmp_path / "p.py").write_text("")
    program = ["--master", "yarn", tmp_path / "p.py"]
    own = {"SPARK_HOME": str(tmp_path / "spark"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return subprocess.run(
        [executable.path(), "submit", *map(str, [*words, *program])],
        env={**os.environ, **own, **variables},
        text=True,
        capture_output=True,
        timeout=240,
    )
