"""DataFrames through a SavedModel: what is behind the ``transform`` of ``tfos.ml`` and of the
facade.

The executors' JVMs run them where they can (:mod:`tfos.inference.jvm`). Else Spark hands rows to a
Python worker as Arrow record batches, and what is in :mod:`tfos.inference` runs them; the session
stays in the worker for the tasks that come after. Either way it is the same engine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import types as sql

from tfos.base.arrow import pa
from tfos.errors import BadInputError
from tfos.files import hadoop_settings
from tfos.inference import jvm
from tfos.inference import model as inference_model
from tfos.spark import arrow_types, executor, failures
from tfos.spark.sessions import case_matters, context_of

logger = logging.getLogger(__name__)


def transform(
    frame: Any,
    model: inference_model.Model,
    input_mapping: inference_model.InputMapping | None = None,
    output_mapping: Mapping[str, str] | None = None,
    *,
    binary_outputs: Sequence[str] = (),
    batch_size: int = inference_model.BATCH_SIZE,
    keep: bool = True,
) -> Any:
    """A lazy DataFrame: of each row its columns, if ``keep``, and the outputs of the model.

    Arguments as of :meth:`tfos.inference.Model.on`. Raises :class:`BadInputError` before anything
    runs if the columns do not fit.
    """
    context = context_of(frame.sparkSession)
    failures.install()
    plan = model.on(
        _arrow_schema(frame.schema),
        input_mapping,
        output_mapping,
        binary_outputs=binary_outputs,
        batch_size=batch_size,
        keep=keep,
    )
    kept = frame.schema.fields if keep else []
    _check_names([field.name for field in kept], plan, frame.sparkSession)
    unused = jvm.why_unused(frame)
    logger.info(
        "%s runs in %s",
        model.path,
        f"Python workers: {unused}" if unused else "the executors' JVMs",
    )
    if not unused:
        return jvm.transform(frame, plan)
    used = frame if keep else frame.select(*(quoted(name) for name in plan.columns))
    source, names = arrow_types.as_arrow_source(used)
    schema = sql.StructType([*kept, *_outputs(plan.output_schema)])
    distinct = _distinct(schema)
    task = _Task(plan, names, distinct.names, hadoop_settings.of_session(context))
    results = source.mapInArrow(executor.SameVersion(task), distinct)
    return results if distinct is schema else results.toDF(*schema.names)


def task_threads(spark: Any) -> int:
    """How many threads a session in a Python worker gets: the cores of its task."""
    return int(context_of(spark).getConf().get("spark.task.cpus", "1"))


class _Task:
    """What a Spark task does with its partition. Pickled to the executors."""

    def __init__(
        self,
        plan: inference_model.Inference,
        names: list[str],
        result_names: list[str],
        hadoop_environment: Mapping[str, str],
    ):
        self._plan = plan
        self._names = names
        self._result_names = result_names
        self._hadoop_environment = hadoop_environment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        hadoop_settings.adopt(self._hadoop_environment)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            named = (batch.rename_columns(self._names) for batch in batches)
            for results in self._plan.run(named):
                yield results.rename_columns(self._result_names)
        except BadInputError as error:
            partition = TaskContext.get().partitionId()
            raise BadInputError(
                f"{self._plan.model.path}, partition {partition}: {error}"
            ) from None


def quoted(name: str) -> str:
    """A column's name as Spark reads it in expressions: dots and backticks are part of it."""
    return "`" + name.replace("`", "``") + "`"


def _check_names(kept: Iterable[str], plan: inference_model.Inference, spark: Any) -> None:
    """Raises :class:`BadInputError` for an output that Spark would not tell from another column."""
    if case_matters(spark):
        return  # The plan has compared them.
    taken = {name.lower() for name in kept}
    twice = []
    for name in plan.output_schema.names:
        if name.lower() in taken:
            twice.append(name)
        taken.add(name.lower())
    if twice:
        raise BadInputError(
            f"column {', '.join(twice)} would appear twice, as Spark does not tell capital from "
            f"small letters: give the outputs of {plan.model.path} other names in the output "
            "mapping, or set spark.sql.caseSensitive"
        )


def _distinct(schema: sql.StructType) -> sql.StructType:
    """The schema itself, or one with made-up names if names repeat: Spark's reader of Arrow loses
    columns of one name."""
    if len(set(schema.names)) == len(schema.names):
        return schema
    return sql.StructType(
        [
            sql.StructField(f"c{position}", field.dataType, field.nullable, field.metadata)
            for position, field in enumerate(schema)
        ]
    )


def _arrow_schema(schema: sql.StructType) -> pa.Schema:
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType)) for field in schema])


def _arrow_type(data_type: sql.DataType) -> pa.DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(data_type)
    except (PySparkException, TypeError):
        return pa.null()  # Fits no input, which is said if one is to have it.


def _outputs(schema: pa.Schema) -> list[sql.StructField]:
    from pyspark.sql.pandas.types import from_arrow_schema

    return list(from_arrow_schema(schema).fields)
