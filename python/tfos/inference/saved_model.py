"""Writing SavedModels: Keras models, tf.Module objects and TF1-style sessions.

TensorFlow is imported when something is exported, never before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfos.errors import BadInputError


def export(model: Any, export_dir: str | os.PathLike[str], write: bool = True) -> None:
    """Exports ``model`` to ``export_dir`` as a SavedModel that serves.

    ``model`` is a Keras 3 or a legacy Keras model, or a tf.Module. With collective training every
    node must run the export, as it may exchange variables, yet only one may write: the others pass
    ``write=False``, and what they wrote is thrown away.
    """
    with _destination(os.fspath(export_dir), write) as path:
        if _is_keras3(model):
            model.export(path)
        elif hasattr(model, "save") and hasattr(model, "get_config"):
            model.save(path, save_format="tf")
        else:
            import tensorflow as tf

            tf.saved_model.save(model, path)


def export_session(
    session: Any, export_dir: str, tag_set: str, signatures: Mapping[str, Mapping[str, Any]]
) -> None:
    """Exports the graph and the variables of a TF1-style session.

    ``tag_set`` is a comma-separated list of tags. ``signatures`` maps a name to a dict with
    ``inputs`` and ``outputs`` (alias -> tensor) and ``method_name``.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    if hasattr(session, "run_step_fn"):  # of tf.compat.v1.train: what it wraps, past its hooks
        session = session.run_step_fn(lambda step_context: step_context.session)
    with _extensible(session.graph), session.graph.as_default():
        definitions = {
            name: v1.saved_model.signature_def_utils.build_signature_def(
                inputs=_tensor_infos(v1, name, signature, "inputs"),
                outputs=_tensor_infos(v1, name, signature, "outputs"),
                method_name=signature.get(
                    "method_name", v1.saved_model.signature_constants.PREDICT_METHOD_NAME
                ),
            )
            for name, signature in signatures.items()
        }
        builder = v1.saved_model.builder.SavedModelBuilder(export_dir)
        builder.add_meta_graph_and_variables(
            session,
            [tag.strip() for tag in tag_set.split(",")],
            signature_def_map=definitions,
            clear_devices=True,
        )
        builder.save()


def export_checkpoint(
    checkpoint_dir: str, export_dir: str, inputs: Iterable[str], outputs: Iterable[str]
) -> None:
    """Exports the graph and the variables of the last TensorFlow 1 checkpoint in `checkpoint_dir`.

    `inputs` and `outputs` name tensors of the graph, without the `:0` of an operation's first one.
    The model serves them under these names.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
    if checkpoint is None:
        raise BadInputError(f"{checkpoint_dir} has no checkpoint of TensorFlow")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        saver = v1.train.import_meta_graph(f"{checkpoint}.meta", clear_devices=True)
        saver.restore(session, checkpoint)
        signature = {
            "inputs": {name: _tensor(graph, name) for name in inputs},
            "outputs": {name: _tensor(graph, name) for name in outputs},
        }
        export_session(session, export_dir, "serve", {"serving_default": signature})


def _tensor(graph: Any, name: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        raise BadInputError(f"the checkpoint's graph has no tensor {name!r}: {error}") from error


@contextlib.contextmanager
def _extensible(graph: Any) -> Iterator[None]:
    """Allows nodes to be added to a graph that a supervisor or monitored session has finalized."""
    finalized = graph.finalized
    if finalized:
        graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if finalized:
            graph.finalize()


def _tensor_infos(v1: Any, name: str, signature: Mapping[str, Any], side: str) -> dict[str, Any]:
    if side not in signature:
        raise BadInputError(f"signature {name!r} has no {side!r}: give a dict of alias -> tensor")
    return {
        alias: v1.saved_model.utils.build_tensor_info(tensor)
        for alias, tensor in signature[side].items()
    }


def _is_keras3(model: Any) -> bool:
    # Legacy Keras lives in tf_keras. It has ``export``, too, but ``save`` keeps more of a model.
    return any(base.__module__.startswith("keras.src.models") for base in type(model).__mro__)


@contextlib.contextmanager
def _destination(export_dir: str, write: bool) -> Iterator[str]:
    if write:
        yield export_dir
        return
    scratch = tempfile.mkdtemp(prefix="tfos-export-")
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)
