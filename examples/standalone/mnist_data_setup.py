#!/usr/bin/env python3
"""Puts handwritten digits into files for Spark: csv, csv2, pickle, tf or tfr.

    spark-submit mnist_data_setup.py --output mnist_data --format csv [--mnist DIRECTORY|mnist.zip]

writes `<output>/train` and `<output>/test`:

    csv     images/ and labels/ below them: lines of pixels (0 to 255), lines of one-hot labels
    csv2    lines of both: label|pixels
    pickle  images/ and labels/ below them: files of pickled NumPy arrays and lists
    tf      TFRecords written by TensorFlow in Spark's tasks, a file for each
    tfr     TFRecords written as a DataFrame

`--read` shows what is there, `--verify` compares it with the digits after writing it. A relative
`--output` is below the user's directory where the default file system is HDFS. `--mnist` takes
MNIST's .gz files: a directory of this host, or a zip file of them here or on HDFS.
"""

import argparse
import sys
import tempfile
import zipfile

import mnist_files
import numpy as np

from tfos.examples import digits, spark_session

CLASSES = 10


def scaled(row):
    """(pixels from 0 to 1, label) as ([pixels from 0 to 255], [one-hot label])."""
    pixels, label = row
    return [round(255 * pixel) for pixel in pixels], [
        int(label == digit) for digit in range(CLASSES)
    ]


def line(numbers):
    return ",".join(map(str, numbers))


def write(rows, path, kind):
    images, labels = rows.map(lambda row: row[0]), rows.map(lambda row: row[1])
    if kind == "csv":
        images.map(line).saveAsTextFile(f"{path}/images")
        labels.map(line).saveAsTextFile(f"{path}/labels")
    elif kind == "csv2":
        rows.map(lambda row: f"{row[1].index(1)}|{line(row[0])}").saveAsTextFile(path)
    elif kind == "pickle":
        images.map(lambda image: np.array(image, np.uint8)).saveAsPickleFile(f"{path}/images")
        labels.saveAsPickleFile(f"{path}/labels")
    elif kind == "tf":
        rows.mapPartitionsWithIndex(
            lambda index, part: [write_with_tensorflow(path, index, part)]
        ).count()
    else:
        from tensorflowonspark import dfutil

        dfutil.saveAsTFRecords(rows.toDF(["image", "label"]), path)


def write_with_tensorflow(path, index, rows):
    """Runs in Spark's tasks. `path` may be on HDFS."""
    import tensorflow as tf

    import tfos.tensorflow  # noqa: F401  (hdfs:// in this process)

    tf.io.gfile.makedirs(path)
    with tf.io.TFRecordWriter(f"{path}/part-{index:05d}") as writer:
        for image, label in rows:
            feature = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
                for name, values in (("image", image), ("label", label))
            }
            writer.write(
                tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
            )
    return index


def file_system(sc, path):
    """Hadoop's file system of a path, and the path as that takes it."""
    hadoop = sc._jvm.org.apache.hadoop.fs.Path(path)
    return hadoop.getFileSystem(sc._jsc.hadoopConfiguration()), hadoop


def check_new(sc, path):
    files, hadoop = file_system(sc, path)
    if files.exists(hadoop):
        raise SystemExit(f"{path} is there already: name another --output, or remove it")


def load(sc, mnist):
    """(training rows, test rows) of scikit-learn, a directory, or a zip file wherever it is."""
    if not mnist or not mnist.endswith(".zip"):
        return digits.load(mnist)
    with tempfile.TemporaryDirectory() as directory:
        here = f"{directory}/mnist.zip"
        files, source = file_system(sc, mnist)
        if not files.exists(source):
            raise SystemExit(
                f"{files.makeQualified(source)} was not found: put MNIST's zip file there"
            )
        files.copyToLocalFile(source, sc._jvm.org.apache.hadoop.fs.Path(f"file://{here}"))
        with zipfile.ZipFile(here) as archive:
            archive.extractall(directory)
        return digits.load(directory)


def show(rows):
    """Prints what a part of the data looks like; square images as the old script did."""
    image, label = rows[0]
    side = digits.side([(image, label)])
    print(f"images.shape: {len(rows)}x{side}x{side}")
    print(f"labels.shape: {len(rows)}x{len(label)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("-f", "--format", choices=mnist_files.FORMATS, default="csv")
    parser.add_argument("-n", "--num-partitions", type=int, default=10)
    parser.add_argument(
        "-o", "--output", default="mnist_data", help="directory for the data (default %(default)s)"
    )
    parser.add_argument("-r", "--read", action="store_true", help="show what is in --output")
    parser.add_argument(
        "-v", "--verify", action="store_true", help="compare the data with what was written"
    )
    args = parser.parse_args()

    spark = spark_session.session("mnist_data_setup", args.master)
    sc = spark.sparkContext
    try:
        output = mnist_files.full_path(sc, args.output)
        if args.read:
            for part in ("train", "test"):
                rows = mnist_files.rows_of_directory(sc, f"{output}/{part}", args.format)
                image, label = rows.first()
                print(
                    f"{output}/{part}: {rows.count()} digits of {len(image)} pixels; the first is "
                    f"a {label.index(1)}"
                )
                print(f"num_images: {rows.count()}")
                print(f"samples: {rows.take(1)}")
            return 0
        check_new(sc, output)
        for part, rows in zip(("train", "test"), load(sc, args.mnist), strict=True):
            path = f"{output}/{part}"
            wanted = [scaled(row) for row in rows]
            show(wanted)
            write(sc.parallelize(wanted, args.num_partitions), path, args.format)
            print(f"{path}: {len(wanted)} digits as {args.format}")
            if args.verify:
                found = mnist_files.rows_of_directory(sc, path, args.format).collect()
                if sorted(found) != sorted(wanted):
                    raise SystemExit(f"{path} does not hold what was written")
                print(f"{path}: verified")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
