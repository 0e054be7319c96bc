"""The component of examples/emr, installed and used script by script, on real HDFS and a real cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from support.files.webhdfs import WebHdfs
from support.places import ROOT, RUN_VARIABLE

pytestmark = pytest.mark.long

INSTALL = ROOT / "tools" / "install-component.sh"
BOUND_SECONDS = 300
USER = "hadoop"
NOBODY_LISTENS = "http://127.0.0.1:9/mnist"
SCRIPTS = (
    "mnist_download.sh",
    "prepare_mnist.sh",
    "mnist_train_with_spark_cpu.sh",
    "mnist_inference_with_spark_cpu.sh",
    "mnist_train_with_tf_cpu.sh",
    "mnist_inference_with_tf_cpu.sh",
)


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    directory = tmp_path_factory.mktemp("service") / "tensorflowonspark"
    subprocess.run(
        [INSTALL, "--python", sys.executable, directory], check=True, timeout=BOUND_SECONDS
    )
    return directory


@pytest.fixture
def run(component, tmp_path):
    """Runs a script of the component by sh with settings; its standard output."""

    def call(script, *arguments, **settings):
        # As the guide has it: sh may be any POSIX shell.
        done = subprocess.run(
            ["sh", component / script, *arguments],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env={**os.environ, "LOCAL_DIR": str(tmp_path / "mnist"), **settings},
            timeout=BOUND_SECONDS,
        )
        assert done.returncode == 0, f"{script}:\n{done.stdout}\n{done.stderr[-6000:]}"
        return done.stdout

    return call


def test_every_script_says_what_it_does(component, run):
    assert sorted(path.name for path in component.glob("*.sh")) == sorted(SCRIPTS)
    jar = component / "TensorFlowOnSpark" / "tensorflow-hadoop-1.10.0.jar"
    with zipfile.ZipFile(jar) as classes:
        assert "org/tensorflow/hadoop/io/TFRecordFileInputFormat.class" in classes.namelist()
    for script in SCRIPTS:
        said = run(script, "--help")
        assert said.startswith(script) and str(component / "conf" / "tfos-env.sh") in said


def test_an_installation_over_another_keeps_the_settings(component, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(component, copy)
    (copy / "conf" / "tfos-env.sh").write_text("# mine\n")
    (copy / "prepare_mnist.sh").unlink()
    done = subprocess.run(
        [INSTALL, "--python", sys.executable, copy], text=True, capture_output=True, check=True
    )
    assert "stays as it is" in done.stdout
    assert (copy / "conf" / "tfos-env.sh").read_text() == "# mine\n"
    assert (copy / "prepare_mnist.sh").exists()


def test_a_relative_directory_of_this_host_is_below_the_working_directory(run, tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist.zip").touch()
    shown = run(
        "prepare_mnist.sh",
        LOCAL_DIR="mnist",
        HADOOP_CONF_DIR=str(tmp_path),
        SUBMIT_OPTIONS="--dry-run",
    )
    zips = re.findall(r"--mnist (\S+)", shown)
    assert zips == [f"file://{tmp_path}/mnist/mnist.zip"] * 2, "for CSV and for TFRecords"


def test_a_python_that_lacks_something_is_refused(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    done = subprocess.run(
        [INSTALL, "--python", tmp_path / "empty/bin/python", tmp_path / "component"],
        text=True,
        capture_output=True,
    )
    assert done.returncode != 0 and "has no tfos, tensorflow" in done.stderr
    assert list((tmp_path / "component").iterdir()) == []


# Six applications, one after the other.
@pytest.mark.timeout(6 * BOUND_SECONDS)
def test_the_six_scripts(run, standalone_cluster, hdfs, tmp_path, leftovers):
    files = WebHdfs(hdfs)
    home = f"/user/{USER}"
    files.make_directory(home, owner=USER)
    settings = {
        "MASTER": standalone_cluster.url,
        "HADOOP_CONF_DIR": str(hdfs.configuration),
        "HADOOP_USER_NAME": USER,
        "NODES": "2",
        "EXECUTOR_MEMORY": "512m",
        "PARTITIONS": "2",
        "EPOCHS": "8",
    }

    assert "NOT MNIST" in run("mnist_download.sh", MNIST_URL=NOBODY_LISTENS)
    (tmp_path / "mnist" / "mnist.zip").unlink()
    (tmp_path / "mnist").rename(tmp_path / "given")
    assert "MNIST from" in run(
        "mnist_download.sh", MNIST=str(tmp_path / "given"), MNIST_URL=NOBODY_LISTENS
    )
    packed = sorted(
        f"{part}-ubyte.gz"
        for part in (
            "train-images-idx3",
            "train-labels-idx1",
            "t10k-images-idx3",
            "t10k-labels-idx1",
        )
    )
    assert (
        sorted(os.listdir(tmp_path / "mnist"))
        == ["mnist.zip", *packed]
        == ["mnist.zip", *sorted(os.listdir(tmp_path / "given"))]
    )
    with zipfile.ZipFile(tmp_path / "mnist" / "mnist.zip") as archive:
        assert sorted(archive.namelist()) == packed
    # The guide puts it to HDFS; a host without ~/mnist reads it there.
    files.make_directory("/mnist/tools", owner=USER)
    files.put("/mnist/tools/mnist.zip", (tmp_path / "mnist" / "mnist.zip").read_bytes())
    (tmp_path / "mnist").rename(tmp_path / "gone")
    assert run("prepare_mnist.sh", "--verify", **settings).count("verified") == 4
    assert files.names(f"{home}/mnist/csv") == files.names(f"{home}/mnist/tfr") == ["test", "train"]

    run("mnist_train_with_spark_cpu.sh", "--rdma", "True", **settings)
    assert_trained(files, f"{home}/mnist_model")
    assert {"graph.pbtxt", "model.ckpt-0.index"} <= set(files.names(f"{home}/mnist_model"))
    assert any(
        name.startswith("events.out.tfevents.") for name in files.names(f"{home}/mnist_model/train")
    )
    run("mnist_inference_with_spark_cpu.sh", **settings)
    line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} Label: (\d), Prediction: (\d)")
    answers = [line.fullmatch(text).groups() for text in files.lines(f"{home}/predictions")]
    assert share_of_right(answers) > 0.8

    run("mnist_train_with_tf_cpu.sh", **settings)
    assert_trained(files, f"{home}/mnist_model/train")
    run("mnist_inference_with_tf_cpu.sh", **settings)
    answers = [
        re.fullmatch(r"(\d) (\d)", text).groups()
        for text in files.lines(f"{home}/mnist_model/inference")
    ]
    assert share_of_right(answers) > 0.8
    for path in (
        "mnist/csv",
        "mnist_model",
        "predictions",
        "mnist_model/train",
        "mnist_model/inference",
    ):
        assert files.owner(f"{home}/{path}") == USER


@pytest.fixture
def spark_conf(yarn, tmp_path):
    """Spark's defaults for YARN, with what keeps an application small and its containers known."""
    directory = tmp_path / "spark-conf"
    directory.mkdir()
    said = {
        "spark.driver.memory": "512m",
        "spark.executor.memoryOverhead": "1g",
        "spark.ui.enabled": "false",
        "spark.yarn.maxAppAttempts": "1",
    }
    # Containers don't inherit them.
    for name in (RUN_VARIABLE, "JDK_JAVA_OPTIONS"):
        said |= {
            f"spark.{of}.{name}": os.environ[name] for of in ("yarn.appMasterEnv", "executorEnv")
        }
    (directory / "spark-defaults.conf").write_text(
        (yarn.configuration / "spark-defaults.conf").read_text()
        + "".join(f"{key} {value}\n" for key, value in said.items())
    )
    return directory


@pytest.mark.spark
@pytest.mark.timeout(4 * BOUND_SECONDS)  # Three applications, one after the other.
def test_scripts_prepare_and_train_on_yarn(run, yarn, spark_conf, hdfs, tmp_path, leftovers):
    files = WebHdfs(hdfs)
    home = f"/user/{USER}"
    files.make_directory(home, owner=USER)
    run("mnist_download.sh", MNIST_URL=NOBODY_LISTENS)
    settings = {
        "MASTER": "yarn",
        "HADOOP_CONF_DIR": str(yarn.configuration),
        "SPARK_CONF_DIR": str(spark_conf),
        "HADOOP_USER_NAME": USER,
        "HDFS_DIR": f"{home}/on_yarn",
        "NODES": "2",
        "EXECUTOR_MEMORY": "512m",
        "PARTITIONS": "2",
        "EPOCHS": "8",
    }
    assert run("prepare_mnist.sh", "--verify", **settings).count("verified") == 4
    run("mnist_train_with_spark_cpu.sh", **settings)
    assert_trained(files, f"{home}/on_yarn/mnist_model")
    for path in ("mnist/csv", "mnist/tfr", "mnist_model"):
        assert files.owner(f"{home}/on_yarn/{path}") == USER
    applications = yarn.get("cluster/apps")["apps"]["app"]
    assert [(each["user"], each["finalStatus"]) for each in applications] == [
        (USER, "SUCCEEDED")
    ] * 3


def assert_trained(files, directory):
    names = files.names(directory)
    for kind in ("checkpoint", "model.ckpt-", "events.out.tfevents."):
        assert any(name.startswith(kind) for name in names), names


def share_of_right(answers):
    assert len(answers) == 359  # scikit-learn's test digits
    return sum(label == prediction for label, prediction in answers) / len(answers)
