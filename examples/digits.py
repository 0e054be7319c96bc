"""Handwritten digits for the examples: scikit-learn's (8x8), or MNIST (28x28) from its files.

A row is (pixels, label): a list of floats from 0 to 1, line by line, and a number from 0 to 9.

As a program it writes scikit-learn's as MNIST's files are: digits.py DIRECTORY
"""

import gzip
import math
import pathlib
import sys

import numpy as np

_SEED = 20
_TEST_SHARE = 0.1
_TEST_SHARE_OF_SMALL = 0.2

# The idx format: a big-endian header of a magic number (0, 0, type 8 = unsigned byte, number of
# dimensions) and one 32-bit size for each dimension, then the bytes.
_IDX_UNSIGNED_BYTE = 8


def add_mnist_argument(parser):
    parser.add_argument(
        "--mnist", metavar="DIRECTORY", help="MNIST's .gz files (default: scikit-learn's digits)"
    )


def load(mnist_dir=None):
    """Returns (training rows, test rows).

    `mnist_dir` holds MNIST's idx .gz files. Without its `train` files a tenth of the `t10k` ones
    is the test set, and the rest is for training.
    """
    if not mnist_dir:
        from sklearn.datasets import load_digits

        digits = load_digits()
        return _split(digits.images / 16.0, digits.target, _TEST_SHARE_OF_SMALL)
    directory = pathlib.Path(mnist_dir)
    test = _read_pair(directory, "t10k")
    if (directory / "train-images-idx3-ubyte.gz").exists():
        return _rows(*_read_pair(directory, "train")), _rows(*test)
    return _split(*test, _TEST_SHARE)


def save(directory):
    """Writes scikit-learn's digits as MNIST's four files: what `load()` returns, `load(directory)` does."""
    for prefix, rows in zip(("train", "t10k"), load(), strict=True):
        pixels, labels = zip(*rows, strict=True)
        images = np.rint(255 * np.array(pixels)).reshape(-1, side(rows), side(rows))
        _write_idx(directory / f"{prefix}-images-idx3-ubyte.gz", images)
        _write_idx(directory / f"{prefix}-labels-idx1-ubyte.gz", np.array(labels))


def side(rows):
    """Returns the width and height of the images, which are square."""
    return math.isqrt(len(rows[0][0]))


def _split(images, labels, test_share):
    order = np.random.default_rng(_SEED).permutation(len(images))
    rows = _rows(images[order], labels[order])
    test_count = round(len(rows) * test_share)
    return rows[test_count:], rows[:test_count]


def _rows(images, labels):
    pixels = images.reshape(len(images), -1).astype(np.float32).tolist()
    return list(zip(pixels, labels.tolist(), strict=True))


def _read_pair(directory, prefix):
    images = _read_idx(directory / f"{prefix}-images-idx3-ubyte.gz", dimensions=3)
    labels = _read_idx(directory / f"{prefix}-labels-idx1-ubyte.gz", dimensions=1)
    if len(images) != len(labels):
        raise SystemExit(f"{directory}: {len(images)} {prefix} images, but {len(labels)} labels")
    return images / 255.0, labels


def _read_idx(path, dimensions):
    if not path.exists():
        raise SystemExit(f"{path} was not found: it must be a directory with MNIST's .gz files")
    with gzip.open(path) as file:
        data = file.read()
    if data[:4] != bytes([0, 0, _IDX_UNSIGNED_BYTE, dimensions]):
        raise SystemExit(f"{path} is not an idx file of bytes in {dimensions} dimensions")
    shape = np.frombuffer(data, ">u4", count=dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _write_idx(path, numbers):
    header = bytes([0, 0, _IDX_UNSIGNED_BYTE, numbers.ndim])
    sizes = np.array(numbers.shape, ">u4").tobytes()
    with gzip.open(path, "wb") as file:
        file.write(header + sizes + numbers.astype(np.uint8).tobytes())


if __name__ == "__main__":
    save(pathlib.Path(sys.argv[1]))
