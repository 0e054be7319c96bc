"""Hadoop's file systems in the process of an instance, as nodes have them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping

from tfos.base import import_hook
from tfos.errors import TfosError
from tfos.files import hadoop_settings


def adopt(environment: Mapping[str, str]) -> None:
    """Gives a session's settings (:func:`tfos.files.hadoop_settings.of_session`) to this process,
    and its secrets to none that the program starts."""
    hadoop_settings.adopt(environment)
    hadoop_settings.hide_secrets()


@functools.cache  # Spark keeps the process for other tasks.
def offer_to_tensorflow() -> None:
    """Lets TensorFlow reach these file systems once the program has imported it."""
    import_hook.call_after_import("tensorflow", _register)


def _register() -> None:
    try:
        import tfos.tensorflow  # noqa: F401  (registers the schemes)
    except TfosError as error:  # A program may not need them.
        warnings.warn(
            f"hdfs:// paths don't work in this process: {error}", RuntimeWarning, stacklevel=2
        )
