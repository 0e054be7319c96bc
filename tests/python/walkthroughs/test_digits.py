"""The digits that examples share: scikit-learn's and MNIST's files are read the same way."""

import gzip
import subprocess
import sys

import pytest

from tfos.errors import BadInputError
from tfos.examples import digits


def test_what_the_program_writes_is_read_as_mnist(tmp_path):
    subprocess.run([sys.executable, "-m", "tfos.examples.digits", tmp_path / "new"], check=True)
    for read, own in zip(digits.load(tmp_path / "new"), digits.load(), strict=True):
        assert digits.side(read) == 8
        assert [label for _, label in read] == [label for _, label in own]
        for (pixels, _), (wanted, _) in zip(read, own, strict=True):
            assert pixels == pytest.approx(wanted, abs=0.51 / 255)


def test_without_files_of_training_a_tenth_is_the_test_set(tmp_path):
    digits.save(tmp_path)
    for path in tmp_path.glob("train-*"):
        path.unlink()
    training, test = digits.load(tmp_path)
    assert (len(training), len(test)) == (323, 36)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        digits.load()


def test_what_are_not_mnists_files_is_refused(tmp_path):
    with pytest.raises(BadInputError, match=r"t10k-images-idx3-ubyte\.gz was not found"):
        digits.load(tmp_path)
    digits.save(tmp_path)
    images, labels = (tmp_path / f"t10k-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
    labels.write_bytes((tmp_path / "train-labels-idx1-ubyte.gz").read_bytes())
    with pytest.raises(BadInputError, match="359 t10k images, but 1438 labels"):
        digits.load(tmp_path)
    images.write_bytes(gzip.compress(b"\x00\x00\x0d\x03"))
    with pytest.raises(BadInputError, match="not an idx file of bytes in 3 dimensions"):
        digits.load(tmp_path)


def test_it_loads_no_library_that_tfos_does_not_need():
    program = "import sys; from tfos.examples import digits, spark_session; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"sklearn", "pyspark", "tensorflow", "keras"} & set(loaded)
