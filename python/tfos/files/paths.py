"""Where a path of a program lies: its full URI, given the cluster's default file system.

Programs name files without a scheme and expect Hadoop's reading of them, whatever node they run on.
"""

from __future__ import annotations

import getpass
import os
import re
from typing import Any

from tfos.spark.connect import ConnectContext

_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")

#: File systems that give every user a home directory, which relative paths start from.
_HOME_SCHEMES = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})


def current_user() -> str:
    """The user that Hadoop acts as in this process: in Spark's executors the application's."""
    given = os.environ.get("HADOOP_USER_NAME") or os.environ.get("SPARK_USER")
    if given:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # The platform has chosen a number that has no name here.
        return str(os.getuid())


def default_fs(spark_context: Any) -> str:
    """The ``fs.defaultFS`` of a SparkContext or of a session of Spark Connect, in the form that
    ``resolve`` takes: no trailing slash."""
    if isinstance(spark_context, ConnectContext):
        return _without_trailing_slash(spark_context.default_fs())
    configured = spark_context._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///"
    return _without_trailing_slash(configured)


def resolve(
    default_fs: str, working_dir: str, path: str | os.PathLike[str], user: str | None = None
) -> str:
    """The full URI of ``path``.

    | path                 | result                                              |
    |----------------------|-----------------------------------------------------|
    | ``scheme:/...``      | unchanged                                           |
    | ``/absolute``        | on the default file system                          |
    | relative, HDFS       | below ``/user/<user>`` on the default file system   |
    | relative, ``file``   | below ``working_dir``                               |
    | relative, others     | below the root of the default file system           |

    ``user`` is the current one by default.
    """
    path = os.fspath(path)
    if _ABSOLUTE_URI.match(path):
        return path
    base = _without_trailing_slash(default_fs)
    if path.startswith("/"):
        return base + path
    scheme = base.partition("://")[0]
    if scheme in _HOME_SCHEMES:
        return f"{base}/user/{user or current_user()}/{path}"
    if scheme == "file":
        return (
            f"{base}/{working_dir.strip('/')}/{path}"
            if working_dir.strip("/")
            else f"{base}/{path}"
        )
    return f"{base}/{path}"


def in_session(spark_context: Any, path: str | os.PathLike[str]) -> str:
    """What ``path`` is on the nodes of a SparkContext, or of a session of Spark Connect: relative
    ones start from the home of the application's user, who need not be that of this process."""
    base, given = default_fs(spark_context), os.fspath(path)
    user: str | None = None
    is_relative = not (_ABSOLUTE_URI.match(given) or given.startswith("/"))
    if is_relative and base.partition("://")[0] in _HOME_SCHEMES:
        is_connect = isinstance(spark_context, ConnectContext)
        user = (
            spark_context.run_on_executor(current_user) if is_connect else spark_context.sparkUser()
        )
    return resolve(base, os.getcwd(), given, user)


def _without_trailing_slash(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        # "file:/" is how java.net.URI writes the root of the local file system.
        return scheme.partition(":")[0] + "://"
    return scheme + separator + rest.rstrip("/")
