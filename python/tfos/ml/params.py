"""The parameters that the stages of ``tfos.ml`` have in common."""

from __future__ import annotations

import os
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasValidationIndicatorCol


def _to_path(value: Any) -> str:
    return TypeConverters.toString(os.fspath(value) if isinstance(value, os.PathLike) else value)


def _to_nodes(value: Any) -> int | tuple[int, int]:
    """A number, or the pair of the least and the most, which JSON keeps as a list."""
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise TypeError(f"nodes must be a number or (least, most), not {value!r}")
        return TypeConverters.toInt(value[0]), TypeConverters.toInt(value[1])
    return TypeConverters.toInt(value)


class _InferenceParams(Params):
    """How rows go through a model."""

    inputMapping = Param(
        Params._dummy(),
        "inputMapping",
        "dict of column -> input of the model; for a ragged one a pair of the inputs for "
        "its values "
        "and for its row splits. Empty: each input has the column of its name",
    )
    outputMapping = Param(
        Params._dummy(),
        "outputMapping",
        "dict of output of the model -> column. Empty: all outputs, under their names",
    )
    binaryOutputs = Param(
        Params._dummy(),
        "binaryOutputs",
        "outputs whose strings are bytes (binary columns); those of others are text",
        TypeConverters.toListString,
    )
    batchSize = Param(
        Params._dummy(), "batchSize", "rows that the model gets at a time", TypeConverters.toInt
    )
    keepInputs = Param(
        Params._dummy(),
        "keepInputs",
        "whether transform keeps all columns in front of the outputs",
        TypeConverters.toBoolean,
    )
    signature = Param(Params._dummy(), "signature", "of the SavedModel", TypeConverters.toString)
    tags = Param(
        Params._dummy(),
        "tags",
        "of the SavedModel's graph, separated by commas",
        TypeConverters.toString,
    )
    opLibraries = Param(
        Params._dummy(),
        "opLibraries",
        "files with ops of the model's own, which must be on every executor's host",
        TypeConverters.toListString,
    )
    modelDir = Param(
        Params._dummy(),
        "modelDir",
        "a directory that driver, nodes and executors reach. Of a Model: its SavedModel; of an "
        "Estimator: where each fit makes a directory with a SavedModel",
        _to_path,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            inputMapping={},
            outputMapping={},
            binaryOutputs=[],
            batchSize=128,
            keepInputs=True,
            signature="serving_default",
            tags="serve",
            opLibraries=[],
        )

    def setInputMapping(self, value: dict[str, Any]) -> Any:
        return self._set(inputMapping=value)

    def getInputMapping(self) -> dict[str, Any]:
        return self.getOrDefault(self.inputMapping)

    def setOutputMapping(self, value: dict[str, str]) -> Any:
        return self._set(outputMapping=value)

    def getOutputMapping(self) -> dict[str, str]:
        return self.getOrDefault(self.outputMapping)

    def setBinaryOutputs(self, value: list[str]) -> Any:
        return self._set(binaryOutputs=value)

    def getBinaryOutputs(self) -> list[str]:
        return self.getOrDefault(self.binaryOutputs)

    def setBatchSize(self, value: int) -> Any:
        return self._set(batchSize=value)

    def getBatchSize(self) -> int:
        return self.getOrDefault(self.batchSize)

    def setKeepInputs(self, value: bool) -> Any:
        return self._set(keepInputs=value)

    def getKeepInputs(self) -> bool:
        return self.getOrDefault(self.keepInputs)

    def setSignature(self, value: str) -> Any:
        return self._set(signature=value)

    def getSignature(self) -> str:
        return self.getOrDefault(self.signature)

    def setTags(self, value: str) -> Any:
        return self._set(tags=value)

    def getTags(self) -> str:
        return self.getOrDefault(self.tags)

    def setOpLibraries(self, value: list[str]) -> Any:
        return self._set(opLibraries=value)

    def getOpLibraries(self) -> list[str]:
        return self.getOrDefault(self.opLibraries)

    def setModelDir(self, value: str | os.PathLike[str]) -> Any:
        return self._set(modelDir=value)

    def getModelDir(self) -> str:
        return self.getOrDefault(self.modelDir)


class _TrainingParams(_InferenceParams, HasValidationIndicatorCol):
    """How a model is trained. ``validationIndicatorCol`` is Spark's own parameter: a column that is
    true in rows to validate with."""

    labelCol = Param(
        Params._dummy(),
        "labelCol",
        "the column that the model is to predict",
        TypeConverters.toString,
    )
    epochs = Param(Params._dummy(), "epochs", "how often the rows are read", TypeConverters.toInt)
    nodes = Param(
        Params._dummy(), "nodes", "of the cluster that trains, or (least, most) of them", _to_nodes
    )
    shuffle = Param(
        Params._dummy(),
        "shuffle",
        "whether nodes get the rows in a random order, by a Spark shuffle, and each epoch "
        "in another",
        TypeConverters.toBoolean,
    )
    args = Param(
        Params._dummy(),
        "args",
        "dict that the program finds in ctx.args.args; what a grid search varies",
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(labelCol="label", epochs=1, nodes=1, shuffle=False, args={})

    def setLabelCol(self, value: str) -> Any:
        return self._set(labelCol=value)

    def getLabelCol(self) -> str:
        return self.getOrDefault(self.labelCol)

    def setEpochs(self, value: int) -> Any:
        return self._set(epochs=value)

    def getEpochs(self) -> int:
        return self.getOrDefault(self.epochs)

    def setValidationIndicatorCol(self, value: str) -> Any:
        return self._set(validationIndicatorCol=value)

    def setNodes(self, value: int | tuple[int, int]) -> Any:
        return self._set(nodes=value)

    def getNodes(self) -> int | tuple[int, int]:
        return self.getOrDefault(self.nodes)

    def setShuffle(self, value: bool) -> Any:
        return self._set(shuffle=value)

    def getShuffle(self) -> bool:
        return self.getOrDefault(self.shuffle)

    def setArgs(self, value: dict[str, Any]) -> Any:
        return self._set(args=value)

    def getArgs(self) -> dict[str, Any]:
        return self.getOrDefault(self.args)
