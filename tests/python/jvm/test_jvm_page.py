"""The programs of docs/jvm.md, each as its reader would run it."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pyspark
import pytest

import tfos
from support.jvm import strings
from support.places import ROOT
from tfos import records
from tfos.errors import BadInputError

SPARK_HOME = pathlib.Path(pyspark.__file__).parent
PAGE = (ROOT / "docs/jvm.md").read_text()


def example(language):
    """The program of that language in the page."""
    (program,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return program


@pytest.fixture(scope="module")
def java_example(tmp_path_factory):
    """A jar of the page's Java program."""
    directory = tmp_path_factory.mktemp("java")
    (directory / "Score.java").write_text(example("java"))
    class_path = f"{tfos.jar_path()}:{SPARK_HOME}/jars/*"
    subprocess.run(["javac", "-cp", class_path, "Score.java"], cwd=directory, check=True)
    subprocess.run(["jar", "cf", "score.jar", "Score.class"], cwd=directory, check=True)
    return directory / "score.jar"


@pytest.fixture
def page_data(models, spark, digits, tmp_path):
    """What the page's programs read: TFRecords and a model."""
    shutil.copytree(models / "keras", tmp_path / "model")
    table = digits.selectExpr("x AS pixels", "id AS label").toArrow()
    os.mkdir(tmp_path / "train")
    records.write(str(tmp_path / "train" / "part-0"), [table])
    return tmp_path


def logits_in(directory):
    """Those in TFRecords, by size."""
    return sorted(
        row["logits"]
        for file in directory.glob("part-*")
        for batch in records.read(file)
        for row in batch.to_pylist()
    )


@pytest.mark.long
def test_the_java_program_of_the_page(java_example, page_data, numbers):
    # The driver's JVM of this process may be older than the program, and can't be given more classes.
    subprocess.run(
        [
            SPARK_HOME / "bin/spark-submit",
            "--master",
            "local[1]",
            "--conf",
            "spark.ui.enabled=false",
            "--jars",
            tfos.jar_path(),
            "--class",
            "Score",
            java_example,
            page_data,
        ],
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
        check=True,
        timeout=200,
    )
    np.testing.assert_allclose(
        logits_in(page_data / "logits"), sorted(numbers["y"].tolist()), rtol=1e-5, atol=1e-5
    )


def test_the_inference_program(old, spark, page_data, numbers):
    line = next(line for line in PAGE.replace("\\\n", " ").splitlines() if "--export_dir" in line)
    words = [
        word.replace("hdfs:///digits", str(page_data))
        for word in re.findall(r"'[^']*'|\S+", line.partition(".jar ")[2])
    ]
    old.Inference.run(spark._jsparkSession, strings(spark, [word.strip("'") for word in words]))
    rows = spark.read.json(str(page_data / "logits")).collect()
    np.testing.assert_allclose(
        sorted(row.logits for row in rows), sorted(numbers["y"].tolist()), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(BadInputError, match="there is no option --frob\nusage: spark-submit"):
        old.Inference.run(spark._jsparkSession, strings(spark, ["--frob=1"]))


@pytest.mark.long
def test_the_scala_program_of_the_page_in_a_shell(page_data, numbers):
    program = page_data / "program.scala"
    program.write_text(f'val data = "{page_data}"\n{example("scala")}\nSystem.exit(0)\n')
    # The shell reads its own standard input, and would wait there after an error.
    done = subprocess.run(
        [
            SPARK_HOME / "bin/spark-shell",
            "--master",
            "local[1]",
            "--conf",
            "spark.ui.enabled=false",
            "--jars",
            tfos.jar_path(),
            "-I",
            program,
        ],
        stdin=subprocess.DEVNULL,
        cwd=page_data,
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (page_data / "scored" / "_SUCCESS").exists(), done.stdout[-3000:] + done.stderr[-3000:]
    np.testing.assert_allclose(
        logits_in(page_data / "scored"), sorted(numbers["y"].tolist()), rtol=1e-5, atol=1e-5
    )
