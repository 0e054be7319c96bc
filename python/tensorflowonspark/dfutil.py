"""DataFrames and TFRecords, as old programs convert them. New ones use ``format("tfrecord")``."""

from __future__ import annotations

import weakref

from pyspark.sql import SparkSession

import tfos
from tfos.records.spark import rows as example_rows

#: Where each DataFrame of ``loadTFRecords`` came from, as long as there is one.
loadedDF = weakref.WeakKeyDictionary()


def isLoadedDF(df):
    """Whether ``df`` was made by ``loadTFRecords``."""
    return df in loadedDF


def saveAsTFRecords(df, output_dir):
    """Writes a DataFrame as TFRecords of tf.Examples; fails if the directory has files."""
    tfos.save_tfrecords(df, output_dir)


def loadTFRecords(sc, input_dir, binary_features=()):
    """A DataFrame of TFRecords; ``binary_features`` names the columns that are binary, not
    strings."""
    df = example_rows.load(SparkSession(sc), input_dir, binary_features)
    loadedDF[df] = input_dir
    return df


def toTFExample(dtypes):
    """A function for ``mapPartitions``: rows of ``DataFrame.dtypes`` to (serialized example,
    None)."""
    schema = example_rows.parse_dtypes(dtypes)

    def convert(rows):
        return ((bytearray(record), None) for record in example_rows.encode_rows(rows, schema))

    return convert


def fromTFExample(iter, binary_features=()):
    """A list of Rows of (serialized example, anything) pairs."""
    return example_rows.decode_rows((bytes(record) for record, _ in iter), binary_features)


def infer_schema(example, binary_features=()):
    """The StructType of a ``tf.train.Example``."""
    return example_rows.schema_of([example.SerializeToString()], binary_features)
