"""Files of stages, as programs of a session mean their paths and where they can be reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tfos.files import hadoop_settings, paths
from tfos.files.access import access_for, scheme_of
from tfos.spark.connect import ConnectContext
from tfos.spark.sessions import context_of


def resolved(spark: Any, path: str) -> str:
    """The path as programs of Spark mean it: without a scheme on the default file system.

    Hadoop's client of this process gets the session's settings if it is to reach the path.
    """
    context = context_of(spark)
    uri = paths.in_session(context, path)
    if scheme_of(uri) != "file" and not isinstance(context, ConnectContext):
        hadoop_settings.adopt(hadoop_settings.of_session(context))
    return uri


def beside_files(spark: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of files returns: called here, and with Spark Connect in a task, because its
    client may not reach the files."""
    context = context_of(spark)
    if not isinstance(context, ConnectContext):
        return function(*arguments)
    hadoop = hadoop_settings.of_session(context)
    return context.run_on_executor(partial(_with_hadoop, hadoop, function, arguments))


def _with_hadoop(
    environment: Mapping[str, str], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    hadoop_settings.adopt(environment)
    return function(*arguments)


def exists(path: str) -> bool:
    """Whether there is such a file or directory."""
    files, name = access_for(path)
    return files.status(name) is not None
