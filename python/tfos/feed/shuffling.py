"""Another order of the rows for each epoch, made by Spark.

The order is a function of the rows and a seed. It must be: a task that Spark runs again must
bring the same rows in the same order, as the nodes tell it which positions they have.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from tfos.spark.connect import is_connect

_KEY = "__tfos_shuffle_key"


def shuffled_frame(frame: Any, seed: int, partitions: int) -> Any:
    """``frame`` with its rows in another order, over ``partitions``. Costs a Spark shuffle. Names
    of columns must be distinct, and their types such that can be fed. Equal rows are all in one
    partition, among the others there."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import Window, functions
    from pyspark.sql.types import UserDefinedType

    columns = [
        vector_to_array(frame[field.name])
        if isinstance(field.dataType, UserDefinedType)
        else frame[field.name]
        for field in frame.schema
    ]
    # Equal rows have equal keys. It doesn't matter which of them is which, but sorted by that they
    # would follow each other. So they are numbered, which needs no other shuffle.
    equal = Window.partitionBy(_KEY).orderBy(_KEY)
    return (
        frame.withColumn(_KEY, functions.xxhash64(functions.lit(seed), *columns))
        .repartition(partitions, _KEY)
        .withColumn(_KEY, functions.xxhash64(_KEY, functions.row_number().over(equal)))
        .sortWithinPartitions(_KEY)
        .drop(_KEY)
    )


def partitions_of(frame: Any) -> int:
    """How many ``frame`` has; with Spark Connect, which does not tell, those of any shuffle. With
    adaptive execution, Spark may first run shuffles of the frame."""
    if is_connect(frame.sparkSession):
        return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    # None where Spark knows that there are no rows.
    return max(1, frame.rdd.getNumPartitions())


def shuffled_rdd(rdd: Any, seed: int) -> Any:
    """``rdd`` with its elements in another order, over as many partitions. Costs a Spark
    shuffle."""
    partitions = max(1, rdd.getNumPartitions())

    def with_keys(index: int, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        numbers = random.Random(f"{seed} {index}")
        return ((numbers.getrandbits(60), row) for row in rows)

    return (
        rdd.mapPartitionsWithIndex(with_keys)
        .repartitionAndSortWithinPartitions(partitions, lambda key: key % partitions)
        .values()
    )
