"""The walk-throughs under examples/, in a short form."""

import pathlib
import subprocess
import sys

import pytest

from support.places import ROOT

STANDALONE = ROOT / "examples" / "standalone"
BOUND_SECONDS = 300

sys.path.insert(0, str(STANDALONE))
import mnist_data_setup  # noqa: E402  (scripts, no package)
import mnist_files  # noqa: E402


@pytest.mark.parametrize("kind", mnist_files.FORMATS)
def test_digits_come_back_from_every_format(spark, tmp_path, kind):
    for module in (mnist_data_setup, mnist_files):
        spark.sparkContext.addPyFile(module.__file__)
    rows = [mnist_data_setup.scaled(([n / 255, 1.0, 0.0, n / 510], n % 10)) for n in range(40)]
    mnist_data_setup.write(spark.sparkContext.parallelize(rows, 3), f"file://{tmp_path}/data", kind)
    found = mnist_files.rows_of_directory(spark.sparkContext, f"file://{tmp_path}/data", kind)
    assert sorted(found.collect()) == sorted(rows)


# The other steps, of the same programs, are those of test_component.py.
@pytest.mark.long
def test_the_standalone_walkthrough(standalone_cluster, tmp_path, leftovers):
    def submit(script, *arguments):
        files = ",".join(map(str, STANDALONE.glob("mnist_*.py")))
        command = [
            str(pathlib.Path(sys.executable).parent / "spark-submit"),
            "--master",
            standalone_cluster.url,
            "--conf",
            "spark.cores.max=2",
            "--conf",
            "spark.executor.cores=1",
            "--py-files",
            files,
            str(STANDALONE / script),
            *arguments,
        ]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_SECONDS
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
        return done.stdout

    assert "verified" in submit("mnist_data_setup.py", "-n", "2", "-o", "csv", "-v")
    assert "Done: model" in submit(
        "mnist_spark.py",
        "-n",
        "2",
        "-i",
        "csv/train/images",
        "-l",
        "csv/train/labels",
        "-m",
        "model",
    )
    assert list((tmp_path / "model").glob("model.ckpt-*"))
