"""``import tfos.tensorflow`` gives TensorFlow the file systems of Hadoop.

After it ``hdfs://`` and ``viewfs://``, and what ``TFOS_HADOOP_SCHEMES`` lists besides them, work
wherever TensorFlow takes a path: ``tf.io.gfile``, ``tf.data``, checkpoints, SavedModels, summaries.
The Java virtual machine behind them starts with the first use of such a path, not here.
docs/hdfs.md has the settings.
"""

from __future__ import annotations

import ctypes
import os
import warnings

import tensorflow as tf

from tfos.errors import TfosError
from tfos.files import hadoop_client

#: What this process has registered.
_registered: set[str] = set()


def register_schemes(*schemes: str) -> list[str]:
    """For tfos itself: lets TensorFlow reach ``schemes`` through Hadoop; by default those of the
    module.

    Returns those that are reached so now. A scheme that another plugin owns stays with that one,
    and a warning says so. Call it from one thread at a time.
    """
    taken = []
    for scheme in schemes or hadoop_client.schemes():
        if scheme in _registered or _register(scheme):
            _registered.add(scheme)
            taken.append(scheme)
    return taken


def _register(scheme: str) -> bool:
    path = os.path.join(os.path.dirname(__file__), "_hadoop_files.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise TfosError(f"{path} can't be loaded ({error}): install the wheel of tfos") from error
    library.tfos_hadoop_configure.restype = ctypes.c_char_p
    problem = library.tfos_hadoop_configure(
        scheme.encode(), ctypes.c_void_p(hadoop_client.client().address)
    )
    if problem is not None:
        raise TfosError(
            f"TensorFlow {tf.__version__} did not take the file systems of tfos: {problem.decode()}"
        )
    try:
        tf.experimental.register_filesystem_plugin(path)
    except tf.errors.AlreadyExistsError:
        warnings.warn(
            f"{scheme}:// belongs to another file-system plugin of this process (such as "
            "tensorflow-io's): that one is used, not Hadoop's client through tfos. Import "
            "tfos.tensorflow first if tfos is to serve it.",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True


register_schemes()
