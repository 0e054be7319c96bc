"""``tfos.ml.Estimator``: trains a Keras model on a cluster of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cloudpickle
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
from pyspark.sql import functions

import tfos
from tfos import inference
from tfos.base.programs import program_pickle
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.inference import saved_model
from tfos.inference.frames import quoted
from tfos.ml.model import Model, StageWriter
from tfos.ml.overwriting import guard_saving
from tfos.ml.params import _TrainingParams
from tfos.ml.session_files import beside_files, exists, resolved
from tfos.mlflow.fits import active_run_id, run_below
from tfos.spark import versions

#: The function and the settings, in the directory of an estimator that was saved.
_PROGRAM = "program.pickle"


class Estimator(pyspark.ml.Estimator, _TrainingParams, MLReadable, MLWritable):
    """Trains on the nodes of a ``tfos.run`` cluster, fed with the DataFrame's columns.

    Give one of:
        build: ``build(args)`` returns a compiled Keras 3 model, made from the dict of the parameter
            ``args``. All nodes train it together (``ctx.distribute``), on every row once an epoch.
        train: ``train(ctx)``, a program of its own as for ``tfos.run``. ``ctx.args`` has the
            parameters as attributes; the chief must write a SavedModel to ``ctx.args.model_dir``.

    With ``build``, ``callbacks(ctx)`` returns the callbacks of Keras that a node passes to ``fit``,
    after one that gives all nodes the same metrics. Rows in which ``validationIndicatorCol`` is
    true are not trained on: each epoch is validated with them. A program of ``train`` reads them
    from ``ctx.dataset(..., queue="validation")``.

    ``settings`` are further arguments of ``tfos.run``. ``fit`` returns a :class:`tfos.ml.Model`
    that has the parameters of this one; each fit writes to a directory of its own below
    ``modelDir``. Spark reads the rows once; further epochs come from the nodes' memory, or with
    ``nodes=(least, most)`` from Spark's executors.

    ``save`` stores the function and the settings as a pickle, and ``load`` runs the code in it.
    Load only files from people you trust. A CrossValidator and its model save their estimator, too.
    """

    #: The parent run in MLflow, if this is a copy that was made while it was active.
    _parent_run: str | None = None

    @keyword_only
    def __init__(
        self,
        *,
        build: Callable[[dict[str, Any]], Any] | None = None,
        train: Callable[[Any], None] | None = None,
        callbacks: Callable[[Any], list[Any]] | None = None,
        settings: dict[str, Any] | None = None,
        modelDir: str | os.PathLike[str] | None = None,
        inputMapping: dict[str, Any] | None = None,
        labelCol: str = "label",
        validationIndicatorCol: str | None = None,
        outputMapping: dict[str, str] | None = None,
        binaryOutputs: list[str] | None = None,
        batchSize: int = 128,
        epochs: int = 1,
        nodes: int | tuple[int, int] = 1,
        shuffle: bool = False,
        args: dict[str, Any] | None = None,
        keepInputs: bool = True,
        signature: str = "serving_default",
        tags: str = "serve",
        opLibraries: list[str] | None = None,
    ):
        super().__init__()
        guard_saving()
        program = train if build is None else _KerasProgram(build, callbacks)
        if program is None or (build is not None and train is not None):
            raise BadInputError(
                "pass either build=, which makes a Keras model, or train=, a program"
            )
        if callbacks is not None and build is None:
            raise BadInputError(
                "callbacks= goes with build=; a program of train= passes its own ones to fit"
            )
        self._program = program
        self._settings = settings or {}
        params = dict(self._input_kwargs)
        for name in ("build", "train", "callbacks", "settings"):
            params.pop(name, None)
        self._set(**{name: value for name, value in params.items() if value is not None})

    def copy(self, extra: Any = None) -> Estimator:
        """A copy with other parameters. It knows the run of MLflow that is active in this thread: a
        search copies before it fits in other threads, which have none."""
        copied: Estimator = super().copy(extra)
        if self._settings.get("mlflow"):
            copied._parent_run = active_run_id() or self._parent_run
        return copied

    def _fit(self, dataset: Any) -> Model:
        with run_below(self._parent_run):
            return self._train(dataset)

    def _train(self, dataset: Any) -> Model:
        spark = dataset.sparkSession
        if not self.isDefined(self.modelDir):
            raise BadInputError("modelDir is not set: where models are to be written")
        if not self.getInputMapping():
            raise BadInputError("inputMapping is not set: which columns the model learns from")
        self._check_pairs()
        fed, validation = self._split(dataset)
        directory = f"{resolved(spark, self.getModelDir())}/{self.uid}-{uuid.uuid4().hex[:8]}"
        # A path that can't be reached fails now, and not after the training.
        beside_files(spark, exists, directory)
        with tfos.run(
            spark,
            self._program,
            nodes=self.getNodes(),
            args=self._args(directory),
            **self._settings,
        ) as cluster:
            keeps = self.getEpochs() > 1
            cluster.train(
                fed,
                epochs=self.getEpochs(),
                shuffle=self.getShuffle(),
                cache="memory" if keeps else None,
                validation=validation,
            )
        if not beside_files(spark, exists, f"{directory}/saved_model.pb"):
            raise BadInputError(
                f"training ended, and there is no SavedModel in {directory}: the chief must "
                f"write one to ctx.args.model_dir, which all must reach{_lost_of(cluster)}"
            )
        beside_files(
            spark,
            inference.Model,
            directory,
            self.getTags(),
            self.getSignature(),
            tuple(self.getOpLibraries()),
        )
        return self._copyValues(Model()).setModelDir(directory)

    def _split(self, dataset: Any) -> tuple[Any, Any]:
        """The columns that nodes get: of the rows to train on, and of those to validate with."""
        columns = [*sorted(self.getInputMapping()), self.getLabelCol()]
        if not self.isDefined(self.validationIndicatorCol):
            return dataset.select(*map(quoted, columns)), None
        indicator = dataset[quoted(self.getValidationIndicatorCol())]
        # As in Spark's own estimators, what is null is not true.
        is_validation = functions.coalesce(indicator, functions.lit(False))
        return tuple(
            dataset.where(rows).select(*map(quoted, columns))
            for rows in (~is_validation, is_validation)
        )

    def _check_pairs(self) -> None:
        mapping = self.getInputMapping()
        pairs = [column for column, tensor in mapping.items() if not isinstance(tensor, str)]
        if pairs and len(mapping) > 1 and isinstance(self._program, _KerasProgram):
            raise BadInputError(
                f"inputMapping has pairs of inputs for the column {', '.join(pairs)}, as for a "
                "ragged input: build= trains with those beside no other column; give train=, a "
                "program, instead"
            )

    def write(self) -> MLWriter:
        """What saves this estimator: ``write().overwrite().save(path)`` replaces what is there.
        ``save(path)`` is short for ``write().save(path)``."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader:
        """What loads an estimator: ``load(path)`` is short for ``read().load(path)``."""
        return _Reader(cls)

    def _pickled(self) -> bytes:
        """What :meth:`save` writes beside the parameters."""
        return program_pickle.dumps((self._program, self._settings))

    def _args(self, directory: str) -> SimpleNamespace:
        return SimpleNamespace(
            input_mapping=self.getInputMapping(),
            label=self.getLabelCol(),
            batch_size=self.getBatchSize(),
            epochs=self.getEpochs(),
            validates=self.isDefined(self.validationIndicatorCol),
            args=self.getArgs(),
            model_dir=directory,
        )


class _Writer(StageWriter):
    def __init__(self, instance: Estimator):
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        spark = self.sparkSession
        program = self._instance._pickled()
        DefaultParamsWriter.saveMetadata(self._instance, path, versions.of_stage_metadata(spark))
        beside_files(spark, _write, f"{resolved(spark, path)}/{_PROGRAM}", program)


class _Reader(MLReader):
    def __init__(self, kind: type):
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Estimator:
        metadata = DefaultParamsReader.loadMetadata(
            path, versions.of_stage_metadata(self.sparkSession)
        )
        spark = self.sparkSession
        saved = beside_files(spark, _read, f"{resolved(spark, path)}/{_PROGRAM}")
        program, settings = cloudpickle.loads(saved)
        instance = self._kind(train=program, settings=settings)
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance


def _lost_of(cluster: Any) -> str:
    """For people, after a sentence: that the chief was lost, and what that means for the model."""
    chief = next(node for node in cluster.status() if node.rank == 0)
    # One that came again in its place, and was never let in, was stopped at the end.
    if chief.state not in ("lost", "stopped"):
        return ""
    return (
        f". The chief, {chief.name}, was lost: a program that trains on without it must have "
        "another node write the model"
    )


def _write(path: str, content: bytes) -> None:
    files, name = access_for(path)
    with files.create(name) as file:
        file.write(content)


def _read(path: str) -> bytes:
    files, name = access_for(path)
    with files.open(name) as file:
        return file.read()


class _KerasProgram:
    """What a node does with a model builder. Pickled to the nodes."""

    def __init__(
        self,
        build: Callable[[dict[str, Any]], Any],
        callbacks: Callable[[Any], list[Any]] | None,
    ):
        self._build = build
        self._callbacks = callbacks

    def __call__(self, ctx: Any) -> None:
        args = ctx.args
        model = self._build(args.args)
        if getattr(model, "optimizer", None) is None:
            raise BadInputError("build() must return a Keras model that was compiled")
        model.optimizer = ctx.distribute(model.optimizer)
        model.jit_compile = False  # As `compile` does for such an optimizer.

        def rows(**of_dataset: Any) -> Any:
            features = list(args.input_mapping)
            batches = ctx.dataset(
                args.batch_size, features=features, label=args.label, **of_dataset
            )
            return _named(batches, args.input_mapping)

        model.fit(
            rows(remainder="join"),
            epochs=args.epochs,
            validation_data=rows(queue="validation") if args.validates else None,
            callbacks=[
                ctx.average_metrics(batch_norm=True),
                *(self._callbacks(ctx) if self._callbacks else []),
            ],
            verbose=0,
        )
        _export(ctx, model, args.model_dir)


def _export(ctx: Any, model: Any, directory: str) -> None:
    """One of the nodes that have trained writes the SavedModel: their models are equal. All nodes
    call it."""
    from tfos import collective  # It imports TensorFlow, which drivers need not have.

    group = collective.group()
    if not group.is_elastic:
        if ctx.is_chief:
            saved_model.export(model, directory)
        return
    while True:
        first = group.ranks[0]
        if first == group.rank:
            saved_model.export(model, directory)
        group.barrier("the SavedModel is written")
        # If it was lost meanwhile, it may have written a part, which the next one replaces.
        if first in group.ranks:
            return


def _named(rows: Any, mapping: dict[str, str]) -> Any:
    """Columns under the names of the model's inputs; a single one as it is."""
    if len(mapping) == 1:
        return rows
    return rows.map(
        lambda features, *rest: (
            {mapping[column]: tensor for column, tensor in features.items()},
            *rest,
        )
    )
