"""The walk-throughs under examples/, in a short form."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "examples"
STANDALONE = EXAMPLES / "standalone"
BOUND_SECONDS = 300

sys.path[:0] = [str(STANDALONE), str(EXAMPLES)]
import digits  # noqa: E402  (scripts, no package)
import mnist_data_setup  # noqa: E402
import mnist_files  # noqa: E402
import spark_session  # noqa: E402


@pytest.mark.parametrize("kind", mnist_files.FORMATS)
def test_digits_come_back_from_every_format(spark, tmp_path, kind):
    for module in (mnist_data_setup, mnist_files, digits, spark_session):
        spark.sparkContext.addPyFile(module.__file__)
    rows = [mnist_data_setup.scaled(([n / 255, 1.0, 0.0, n / 510], n % 10)) for n in range(40)]
    mnist_data_setup.write(spark.sparkContext.parallelize(rows, 3), f"file://{tmp_path}/data", kind)
    found = mnist_files.rows_of_directory(spark.sparkContext, f"file://{tmp_path}/data", kind)
    assert sorted(found.collect()) == sorted(rows)


# Four applications, one after the other.
@pytest.mark.timeout(2 * BOUND_SECONDS)
def test_the_standalone_walkthrough(spark, standalone_cluster, tmp_path, leftovers):
    def submit(script, *arguments):
        files = ",".join(map(str, [*STANDALONE.glob("mnist_*.py"), EXAMPLES / "digits.py",
                                   EXAMPLES / "spark_session.py"]))
        command = [str(pathlib.Path(sys.executable).parent / "spark-submit"), "--master", standalone_cluster.url,
                   "--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=1",
                   "--py-files", files, str(STANDALONE / script), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True,
                              timeout=BOUND_SECONDS)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
        return done.stdout

    assert "verified" in submit("mnist_data_setup.py", "-n", "2", "-o", "csv", "-v")
    submit("mnist_spark.py", "-n", "2", "-i", "csv/train/images", "-l", "csv/train/labels", "-m",
           "model", "-e", "10", "--rdma")
    submit("mnist_spark.py", "-n", "2", "-i", "csv/test/images", "-l", "csv/test/labels", "-m", "model",
           "-X", "inference", "-o", "predictions")
    line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} Label: (\d), Prediction: (\d)")
    answers = [line.fullmatch(text).groups() for text in lines_of(tmp_path / "predictions")]
    assert share_of_right(answers) > 0.8
    # The same network, with the nodes reading files.
    rows = spark.sparkContext.parallelize(map(mnist_data_setup.scaled, digits.load()[1]), 2)
    mnist_data_setup.write(rows, f"file://{tmp_path}/records", "tfr")
    submit("mnist_tf.py", "-n", "2", "-f", "tfr", "-i", "records", "-m", "model", "-X",
           "inference", "-o", "predictions_tf")
    assert share_of_right([text.split() for text in lines_of(tmp_path / "predictions_tf")]) > 0.8


def lines_of(directory):
    return [line for path in sorted(directory.glob("part-*")) for line in path.read_text().splitlines()]


def share_of_right(answers):
    return sum(label == prediction for label, prediction in answers) / len(answers)
