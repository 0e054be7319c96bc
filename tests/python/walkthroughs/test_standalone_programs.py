"""The programs of examples/standalone with the command lines of the old learning notes."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

from support.files.webhdfs import WebHdfs
from support.places import ROOT

STANDALONE = ROOT / "examples" / "standalone"
SPARK_SUBMIT = pathlib.Path(sys.executable).parent / "spark-submit"
BOUND_SECONDS = 300
FILES = ",".join(map(str, sorted(STANDALONE.glob("mnist_*.py"))))

SAYS_ITS_CORES = """
from tfos.examples import spark_session
conf = spark_session.session("cores", None, 2).conf
print([conf.get(key, None) for key in ("spark.executor.cores", "spark.cores.max", "spark.task.cpus")],
      spark_session.submitted("spark.executor.instances", 1))
"""


def submit(directory, *arguments, **environment):
    """What spark-submit prints with these arguments, in a directory."""
    done = subprocess.run(
        [SPARK_SUBMIT, *map(str, arguments)],
        cwd=directory,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            [
                "--conf",
                "spark.cores.max=8",
                "--conf",
                "spark.task.cpus=2",
                "--conf",
                "spark.executor.cores=4",
                "--conf",
                "spark.executor.instances=3",
            ],
            "['4', '8', '2'] 3",
        ),
        pytest.param(["--conf", "spark.task.cpus=2"], "['2', '4', '2'] 1", marks=pytest.mark.long),
    ],
)
def test_what_spark_submit_says_about_cores_counts(tmp_path, options, expected):
    (tmp_path / "program.py").write_text(SAYS_ITS_CORES)
    said = submit(
        tmp_path,
        "--master",
        "local[4]",
        *options,
        tmp_path / "program.py",
    )
    assert expected in said.splitlines()


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(str(STANDALONE))
    import mnist_files
    import mnist_spark

    return types.SimpleNamespace(files=mnist_files, spark=mnist_spark)


@pytest.mark.parametrize(
    "given, rdma",
    [
        ([], False),
        (["--rdma"], True),
        (["--rdma", "True"], True),
        (["-c", "false"], False),
        (["-c"], True),
    ],
)
def test_rdma_with_and_without_a_value(programs, monkeypatch, given, rdma):
    monkeypatch.setattr(sys, "argv", ["mnist_spark.py", "-i", "images", *given])
    assert programs.spark.parse_arguments().rdma is rdma


def test_labels_of_the_old_script_are_read(programs):
    assert programs.files.numbers("0.0,1.0,0.0") == [0, 1, 0] == programs.files.numbers("0,1,0")


@pytest.mark.parametrize(
    "path, full",
    [
        ("mnist_model", "hdfs://nn/user/note/mnist_model"),
        ("/models", "hdfs://nn/models"),
        ("s3a://b/m", "s3a://b/m"),
    ],
)
def test_all_processes_mean_the_same_directory(programs, monkeypatch, path, full):
    monkeypatch.setenv("HADOOP_USER_NAME", "note")
    hadoop = types.SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": "hdfs://nn"})
    assert programs.files.full_path(types.SimpleNamespace(_jsc=hadoop), path) == full


@pytest.mark.long
@pytest.mark.timeout(4 * BOUND_SECONDS)  # Four applications, one after the other.
# Two cores for each task: one executor for each of two nodes, as the notes have CORES_PER_WORKER.
def test_relative_paths_on_hdfs_with_two_cores_a_task(hdfs, tmp_path, leftovers):
    files = WebHdfs(hdfs)
    files.make_directory("/user/note", owner="note")
    hadoop = {"HADOOP_CONF_DIR": str(hdfs.configuration), "HADOOP_USER_NAME": "note"}

    def run(program, *arguments):
        return submit(
            tmp_path,
            "--master",
            "local-cluster[2,2,1024]",
            "--conf",
            "spark.task.cpus=2",
            "--conf",
            "spark.executor.instances=2",
            "--py-files",
            FILES,
            STANDALONE / program,
            *arguments,
            **hadoop,
        )

    said = run("mnist_data_setup.py", "-f", "tf", "-n", "2", "-v")
    assert (
        said.count("verified") == 2
        and "images.shape: 1438x8x8" in said
        and "labels.shape: 1438x10" in said
    )
    assert files.names("/user/note/mnist_data/train") == ["part-00000", "part-00001"]
    assert "num_images: 1438" in run("mnist_data_setup.py", "-f", "tf", "-r")

    # --cluster_size is what --num-executors says.
    said = run(
        "mnist_spark.py",
        "-f",
        "tfr",
        "-i",
        "mnist_data/train",
        "-m",
        "mnist_model",
        "-s",
        "30",
        "-tb",
    )
    assert re.search(r"^TensorBoard: http://", said, re.MULTILINE)
    assert re.search(r"^\S+T\S+ ===== Start$", said, re.MULTILINE)
    assert re.search(r"^\S+T\S+ ===== Stop$", said, re.MULTILINE)
    assert "checkpoint" in files.names("/user/note/mnist_model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(2 * BOUND_SECONDS)
def test_a_single_node_needs_no_parameter_server(tmp_path, leftovers):
    """The default of --cluster_size."""
    arguments = ["--master", "local-cluster[1,1,1024]", "--py-files", FILES]
    submit(
        tmp_path,
        *arguments,
        STANDALONE / "mnist_data_setup.py",
        "-f",
        "tf",
        "-o",
        "data",
        "-n",
        "2",
        "-v",
    )
    assert sorted(os.listdir(tmp_path / "data")) == ["test", "train"]
    submit(
        tmp_path,
        *arguments,
        STANDALONE / "mnist_tf.py",
        "-f",
        "tfr",
        "-i",
        "data/train",
        "-m",
        "model",
        "-s",
        "10",  # The digits are 16 batches.
    )
    assert list((tmp_path / "model").glob("model.ckpt-10.*"))
