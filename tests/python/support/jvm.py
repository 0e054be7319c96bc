"""Values of Java and of a JVM's rows, for tests of the jar."""

from __future__ import annotations


def strings(spark, values):
    """An array of Java."""
    array = spark.sparkContext._gateway.new_array(spark._jvm.String, len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array


def values(frame):
    """As pyarrow has them: binary as bytes."""
    return [
        [bytes(value) if isinstance(value, bytearray) else value for value in row]
        for row in frame.collect()
    ]
