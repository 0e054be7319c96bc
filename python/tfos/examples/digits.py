"""Handwritten digits: scikit-learn's (8x8), or MNIST (28x28) from its files.

A row is (pixels, label): a list of floats from 0 to 1, line by line, and a number from 0 to 9.

As a program it writes scikit-learn's as MNIST's files are: python -m tfos.examples.digits DIRECTORY
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import pathlib
from typing import Any

import numpy as np

from tfos.errors import BadInputError

Row = tuple[list[float], int]

_SEED = 20
_TEST_SHARE = 0.1
_TEST_SHARE_OF_SMALL = 0.2

# The idx format: a big-endian header of a magic number (0, 0, type 8 = unsigned byte, number of
# dimensions) and one 32-bit size for each dimension, then the bytes.
_IDX_UNSIGNED_BYTE = 8


def add_mnist_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--mnist``, for :func:`load`."""
    parser.add_argument(
        "--mnist", metavar="DIRECTORY", help="MNIST's .gz files (default: scikit-learn's digits)"
    )


def load(mnist_dir: str | os.PathLike[str] | None = None) -> tuple[list[Row], list[Row]]:
    """Returns (training rows, test rows).

    ``mnist_dir`` holds MNIST's idx .gz files. Without its ``train`` files a tenth of the ``t10k``
    ones is the test set, and the rest is for training.
    """
    if not mnist_dir:
        images, labels = _of_scikit_learn()
        return _split(images, labels, _TEST_SHARE_OF_SMALL)
    directory = pathlib.Path(mnist_dir)
    test = _read_pair(directory, "t10k")
    if (directory / "train-images-idx3-ubyte.gz").exists():
        return _rows(*_read_pair(directory, "train")), _rows(*test)
    return _split(*test, _TEST_SHARE)


def save(directory: str | os.PathLike[str]) -> None:
    """Writes scikit-learn's digits as MNIST's four files, for :func:`load`."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for prefix, rows in zip(("train", "t10k"), load(), strict=True):
        pixels, labels = zip(*rows, strict=True)
        images = np.rint(255 * np.array(pixels)).reshape(-1, side(rows), side(rows))
        _write_idx(directory / f"{prefix}-images-idx3-ubyte.gz", images)
        _write_idx(directory / f"{prefix}-labels-idx1-ubyte.gz", np.array(labels))


def side(rows: list[Row]) -> int:
    """Returns the width and height of the images, which are square."""
    return math.isqrt(len(rows[0][0]))


def _of_scikit_learn() -> tuple[Any, Any]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            f"the digits are those of scikit-learn ({error}): pip install scikit-learn, for the "
            "Python of the driver",
            name=error.name,
        ) from error
    digits = load_digits()
    return digits.images / 16.0, digits.target


def _split(images: Any, labels: Any, test_share: float) -> tuple[list[Row], list[Row]]:
    order = np.random.default_rng(_SEED).permutation(len(images))
    rows = _rows(images[order], labels[order])
    test_count = round(len(rows) * test_share)
    return rows[test_count:], rows[:test_count]


def _rows(images: Any, labels: Any) -> list[Row]:
    pixels = images.reshape(len(images), -1).astype(np.float32).tolist()
    return list(zip(pixels, labels.tolist(), strict=True))


def _read_pair(directory: pathlib.Path, prefix: str) -> tuple[Any, Any]:
    images = _read_idx(directory / f"{prefix}-images-idx3-ubyte.gz", dimensions=3)
    labels = _read_idx(directory / f"{prefix}-labels-idx1-ubyte.gz", dimensions=1)
    if len(images) != len(labels):
        raise BadInputError(f"{directory}: {len(images)} {prefix} images, but {len(labels)} labels")
    return images / 255.0, labels


def _read_idx(path: pathlib.Path, dimensions: int) -> Any:
    if not path.exists():
        raise BadInputError(f"{path} was not found: it must be a directory with MNIST's .gz files")
    with gzip.open(path) as file:
        data = file.read()
    if data[:4] != bytes([0, 0, _IDX_UNSIGNED_BYTE, dimensions]):
        raise BadInputError(f"{path} is not an idx file of bytes in {dimensions} dimensions")
    shape = np.frombuffer(data, ">u4", count=dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _write_idx(path: pathlib.Path, numbers: Any) -> None:
    header = bytes([0, 0, _IDX_UNSIGNED_BYTE, numbers.ndim])
    sizes = np.array(numbers.shape, ">u4").tobytes()
    with gzip.open(path, "wb") as file:
        file.write(header + sizes + numbers.astype(np.uint8).tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tfos.examples.digits",
        description="Writes scikit-learn's digits as MNIST's four files.",
    )
    parser.add_argument("directory")
    save(parser.parse_args().directory)
