"""Keeps pyspark from deleting the SavedModels of the very stages that it saves.

``write().overwrite().save(path)`` deletes what is at ``path``, and then asks the stages to save
themselves. A model that was loaded from there has lost its SavedModel by then. pyspark gives the
stages of a pipeline no say before that. So its ``save`` is wrapped: it looks where the SavedModels
of all stages are before it deletes anything.

Threads: any. Errors: :class:`tfos.errors.BadInputError`; nothing was deleted.
"""

from __future__ import annotations

import functools
import posixpath
import threading
from collections.abc import Iterator
from typing import Any

import pyspark
from pyspark.ml.param import Params
from pyspark.ml.util import MLWriter
from pyspark.sql.utils import is_remote

from tfos.errors import BadInputError
from tfos.ml.params import _InferenceParams
from tfos.ml.session_files import resolved
from tfos.spark import versions

_lock = threading.Lock()


def guard_saving() -> None:
    """Wraps what saves stages, in this process; a second time changes nothing."""
    writers = [MLWriter]
    # With Spark 3.5, tfos refuses sessions of Spark Connect.
    if is_remote() and versions.has_python_data_sources(pyspark.__version__):
        from pyspark.ml.connect.readwrite import RemoteMLWriter

        writers.append(RemoteMLWriter)
    with _lock:
        for writer in writers:
            if not hasattr(writer.save, "_looks_for_models"):
                writer.save = _looking(writer.save)


def _looking(save: Any) -> Any:
    @functools.wraps(save)
    def looking(writer: Any, path: str) -> None:
        if writer.shouldOverwrite:
            stage = getattr(writer, "instance", None) or getattr(writer, "_instance", None)
            _refuse_deletion(stage, path, writer.sparkSession)
        save(writer, path)

    looking._looks_for_models = True  # type: ignore[attr-defined]
    return looking


def _refuse_deletion(stage: Any, path: str, spark: Any) -> None:
    """Raises :class:`BadInputError` if a SavedModel of ``stage``, or of a stage in it, is at or
    below ``path``."""
    directories = set(_model_directories(stage))
    if not directories:
        return
    target = _plain(resolved(spark, path))
    for directory in sorted(directories):
        model = _plain(resolved(spark, directory))
        if f"{model}/".startswith(f"{target.rstrip('/')}/"):
            raise BadInputError(
                f"the SavedModel {model} is part of {target}, which this save would delete: save "
                "to another directory"
            )


def _model_directories(stage: Any) -> Iterator[str]:
    """The ``modelDir`` of the stage and of those in it: pipelines, and searches of parameters."""
    if isinstance(stage, _InferenceParams):
        if stage.isDefined(stage.modelDir) and stage.getModelDir():
            yield stage.getModelDir()
    elif isinstance(stage, (list, tuple)):
        for one in stage:
            yield from _model_directories(one)
    else:
        for name in ("stages", "bestModel", "subModels"):
            if hasattr(stage, name):
                yield from _model_directories(getattr(stage, name))
        for name in ("stages", "estimator"):
            if isinstance(stage, Params) and stage.hasParam(name) and stage.isDefined(name):
                yield from _model_directories(stage.getOrDefault(name))


def _plain(uri: str) -> str:
    """A URI in one form: without doubled slashes, dots, and a slash at the end."""
    scheme, _, path = uri.partition(":")
    authority = ""
    if path.startswith("//"):
        authority, _, path = path.removeprefix("//").partition("/")
    return f"{scheme}://{authority}{posixpath.normpath('/' + path.lstrip('/'))}"
