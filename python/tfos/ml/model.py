"""``tfos.ml.Model``: a Spark ML model over a SavedModel."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pyspark.ml
from pyspark import keyword_only
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import SparkSession, functions

from tfos import inference
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.inference import frames, plain_columns
from tfos.ml.overwriting import guard_saving
from tfos.ml.params import _InferenceParams
from tfos.ml.session_files import beside_files, exists, resolved
from tfos.spark import versions
from tfos.spark.connect import is_connect

#: What the jar calls its model, which has the same parameters.
_JAVA_CLASS = "tfos.ml.TensorFlowModel"
#: The folder of the SavedModel in the directory of a model that was saved.
_SAVED_MODEL = "saved_model"
_COPY_BYTES = 4 << 20


class Model(pyspark.ml.Model, _InferenceParams, MLReadable, MLWritable):
    """Adds the outputs of a SavedModel to a DataFrame: of Keras' ``export``,
    ``tf.saved_model.save`` or TensorFlow 1.

    An output of one number for each row, as of the shape [?, 1], becomes a column of plain numbers,
    as Spark's evaluators want it. ``save``
    keeps the SavedModel along with the parameters, so what was saved can be moved. The jar's
    ``tfos.ml.TensorFlowModel`` loads it, and this loads what that one has saved.
    """

    @keyword_only
    def __init__(
        self,
        *,
        modelDir: str | os.PathLike[str] | None = None,
        inputMapping: dict[str, Any] | None = None,
        outputMapping: dict[str, str] | None = None,
        binaryOutputs: list[str] | None = None,
        batchSize: int = 128,
        keepInputs: bool = True,
        signature: str = "serving_default",
        tags: str = "serve",
        opLibraries: list[str] | None = None,
    ):
        super().__init__()
        guard_saving()
        self._set(
            **{name: value for name, value in self._input_kwargs.items() if value is not None}
        )

    def _transform(self, dataset: Any) -> Any:
        model = self._saved_model(dataset.sparkSession)
        outputs = self.getOutputMapping() or {name: name for name in model.outputs}
        result = frames.transform(
            dataset,
            model,
            _mapping(self.getInputMapping(), model),
            outputs,
            binary_outputs=self.getBinaryOutputs(),
            batch_size=self.getBatchSize(),
            keep=self.getKeepInputs(),
        )
        plain = {}
        for output, column in outputs.items():
            if lists := plain_columns.lists_around_one(model.outputs[output]):
                plain[column] = functions.col(frames.quoted(column))
                for _ in range(lists):
                    plain[column] = plain[column][0]
        return result.withColumns(plain)

    def _saved_model(self, spark: SparkSession) -> inference.Model:
        if not self._has_model_dir():
            raise BadInputError("modelDir is not set: the directory of the SavedModel")
        return beside_files(
            spark,
            inference.Model,
            resolved(spark, self.getModelDir()),
            self.getTags(),
            self.getSignature(),
            tuple(self.getOpLibraries()),
            frames.task_threads(spark),
        )

    def _has_model_dir(self) -> bool:
        return self.isDefined(self.modelDir) and self.getModelDir() != ""

    def write(self) -> MLWriter:
        """What saves this model: ``write().overwrite().save(path)`` replaces what is there.
        ``save(path)`` is short for ``write().save(path)``."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader:
        """What loads a model: ``load(path)`` is short for ``read().load(path)``."""
        return _Reader(cls)

    @classmethod
    def _from_java(cls, java_stage: Any) -> Model:
        """What Spark calls for a stage of a pipeline that the JVM has saved and loaded."""
        instance = cls()
        instance._resetUid(java_stage.uid())
        for param in instance.params:
            java_param = java_stage.getParam(param.name)
            value = java_stage.get(java_param)
            if value.isDefined():
                instance.set(param, json.loads(java_param.jsonEncode(value.get())))
        return instance


def _mapping(given: dict[str, Any], model: inference.Model) -> dict[str, Any]:
    """One column for a model of one input is that input, whatever it is called: Keras makes names
    up."""
    if len(given) == 1 and len(model.inputs) == 1:
        return dict(zip(given, model.inputs, strict=True))
    return given


class StageWriter(MLWriter):
    """Writes stages, also where pyspark can't replace a directory."""

    def _handleOverwrite(self, path: str) -> None:
        if not is_connect(self.sparkSession):
            super()._handleOverwrite(path)
        elif beside_files(self.sparkSession, exists, resolved(self.sparkSession, path)):
            raise BadInputError(
                f"{path} is there already, and pyspark can't replace what stages have saved over "
                "Spark Connect: delete it first, or save to another directory"
            )


class _Writer(StageWriter):
    def __init__(self, instance: Model):
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        spark = self.sparkSession
        # A class that derives from it is known in Python alone.
        names = {"class": _JAVA_CLASS} if type(self._instance) is Model else None
        DefaultParamsWriter.saveMetadata(
            self._instance, path, versions.of_stage_metadata(spark), names
        )
        if self._instance._has_model_dir():
            model = resolved(spark, self._instance.getModelDir())
            beside_files(spark, _copy, model, f"{resolved(spark, path)}/{_SAVED_MODEL}")


class _Reader(MLReader):
    def __init__(self, kind: type):
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Model:
        metadata = DefaultParamsReader.loadMetadata(
            path, versions.of_stage_metadata(self.sparkSession)
        )
        instance = self._kind()
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        saved = f"{resolved(self.sparkSession, path)}/{_SAVED_MODEL}"
        is_there = beside_files(self.sparkSession, exists, saved)
        return instance.setModelDir(saved) if is_there else instance


def _copy(source: str, target: str) -> None:
    """Copies the directory of a SavedModel, or one in it, also between file systems."""
    reader, source = access_for(source)
    writer, target = access_for(target)
    writer.mkdirs(target)
    for found in reader.list(source):
        copied = f"{target}/{os.path.basename(found.path)}"
        if found.is_directory:
            _copy(found.path, copied)
            continue
        with reader.open(found.path) as original, writer.create(copied) as copy:
            shutil.copyfileobj(original, copy, _COPY_BYTES)
