"""Reads what mnist_data_setup.py wrote, as RDDs of ([pixels from 0 to 255], [one-hot label])."""

import os
import types

FORMATS = ("csv", "csv2", "pickle", "tf", "tfr")

CLASSES = 10


def full_path(sc, path):
    """`path` as a URI that means the same in every process: as Spark reads it, on the default file
    system, and relative ones below the user's directory there."""
    from tensorflowonspark import TFNode

    default = sc._jsc.hadoopConfiguration().get("fs.defaultFS")
    return TFNode.hdfs_path(types.SimpleNamespace(defaultFS=default, working_dir=os.getcwd()), path)


def numbers(line):
    """Files of the old script hold labels as `0.0,1.0`."""
    return [int(float(number)) for number in line.split(",")]


def label_and_pixels(line):
    label, pixels = line.split("|")
    return numbers(pixels), [int(int(label) == digit) for digit in range(CLASSES)]


def rows_of_directory(sc, path, kind):
    """The digits of one of the directories `train` and `test`."""
    if kind in ("csv", "pickle"):
        return rows_of(sc, f"{path}/images", f"{path}/labels", kind)
    return rows_of(sc, path, None, kind)


def rows_of(sc, images, labels, kind):
    """The digits of a directory of images and one of labels, or of one that holds both.

    Files are not split (as long as they are smaller than a block of HDFS), so that images and labels
    meet.
    """
    if kind == "csv":
        return sc.textFile(images, 1).map(numbers).zip(sc.textFile(labels, 1).map(numbers))
    if kind == "pickle":
        return (
            sc.pickleFile(images, 1).map(lambda image: image.tolist()).zip(sc.pickleFile(labels, 1))
        )
    if kind == "csv2":
        return sc.textFile(images).map(label_and_pixels)
    from tensorflowonspark import dfutil

    rows = dfutil.loadTFRecords(sc, images)
    return rows.select("image", "label").rdd.map(lambda row: (list(row.image), list(row.label)))
