"""Keeps pyspark from harming the SavedModels of the very stages that it saves.

``write().overwrite().save(path)`` deletes what is at ``path``, and then asks the stages to save
themselves. A model that was loaded from there has lost its SavedModel by then. And a model that
is saved inside its own SavedModel would copy its copies without end. pyspark gives the stages of a
pipeline no say before that. So its ``save`` is wrapped: it looks where the SavedModels of all
stages are before it deletes or writes anything. And it looks whether the stages can be saved at
all, as what they would replace is gone otherwise.

Threads: any. Errors: :class:`tfos.errors.BadInputError`; nothing was deleted or written.
"""

from __future__ import annotations

import functools
import posixpath
import threading
from collections.abc import Iterator
from typing import Any

import pyspark
import pyspark.ml
from pyspark.ml.param import Params
from pyspark.ml.util import MLWriter
from pyspark.sql.utils import is_remote

from tfos.errors import BadInputError
from tfos.ml.params import _InferenceParams
from tfos.ml.session_files import beside_files, exists, resolved
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
        stage = getattr(writer, "instance", None) or getattr(writer, "_instance", None)
        _refuse_harm(stage, path, writer)
        save(writer, path)

    looking._looks_for_models = True  # type: ignore[attr-defined]
    return looking


def _refuse_harm(stage: Any, path: str, writer: Any) -> None:
    """Raises :class:`BadInputError` if saving to ``path`` would delete a SavedModel of ``stage`` or
    of a stage in it, or copy one into itself, or finds none. Pickles what an estimator runs, so
    that what can't be pickled is an error here."""
    stages = list(_stages_of_ours(stage))
    if not stages:
        return
    for one in stages:
        if hasattr(one, "_pickled"):
            one._pickled()
    spark = writer.sparkSession
    target = _plain(resolved(spark, path))
    with_models = (one for one in stages if one.isDefined(one.modelDir) and one.getModelDir())
    for one in sorted(with_models, key=lambda one: one.getModelDir()):
        model = _plain(resolved(spark, one.getModelDir()))
        if writer.shouldOverwrite and _is_in(model, target):
            raise BadInputError(
                f"the SavedModel {model} is part of {target}, which this save would delete: save "
                "to another directory"
            )
        if not isinstance(one, pyspark.ml.Model):
            continue  # An estimator's directory is not copied.
        if not beside_files(spark, exists, f"{model}/saved_model.pb"):
            raise BadInputError(f"there is no SavedModel in {model}: nothing was saved")
        if _is_in(target, model):
            raise BadInputError(
                f"{target} is in the SavedModel {model}, which this save would copy there: save "
                "to another directory"
            )


def _stages_of_ours(stage: Any) -> Iterator[_InferenceParams]:
    """The stage and those in it, as of pipelines and searches of parameters, that tfos has made."""
    if isinstance(stage, _InferenceParams):
        yield stage
    elif isinstance(stage, (list, tuple)):
        for one in stage:
            yield from _stages_of_ours(one)
    else:
        for name in ("stages", "bestModel", "subModels"):
            if hasattr(stage, name):
                yield from _stages_of_ours(getattr(stage, name))
        for name in ("stages", "estimator"):
            if isinstance(stage, Params) and stage.hasParam(name) and stage.isDefined(name):
                yield from _stages_of_ours(stage.getOrDefault(name))


def _is_in(path: str, directory: str) -> bool:
    """Whether it is the directory or below it; both of :func:`_plain`."""
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")


def _plain(uri: str) -> str:
    """A URI in one form: without doubled slashes, dots, and a slash at the end."""
    scheme, _, path = uri.partition(":")
    authority = ""
    if path.startswith("//"):
        authority, _, path = path.removeprefix("//").partition("/")
    return f"{scheme}://{authority}{posixpath.normpath('/' + path.lstrip('/'))}"
