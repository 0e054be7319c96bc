"""``tfos doctor --hdfs URI``: reaches a directory of Hadoop's step by step, as TensorFlow would.

It imports TensorFlow and starts Java in this process. Below the URI it makes a directory of its own
and removes it again.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from tfos import hadoop_client
from tfos.doctor import FAIL, OK, Check

_BYTES = 1 << 20


def hdfs_checks(uri: str) -> list[Check]:
    """One check for each step, up to the first that fails."""
    try:
        import tensorflow as tf

        from tfos import tensorflow
    except Exception as error:  # Whatever an installation may raise.
        return [Check(FAIL, "TensorFlow with tfos", str(error), "install both for this Python")]

    scheme = uri.partition("://")[0]
    if not uri.startswith(f"{scheme}://") or scheme not in tensorflow.register_schemes():
        return [Check(FAIL, "scheme", f"{uri} is not one of {', '.join(hadoop_client.schemes())}",
                      f"name a path such as hdfs://namenode:8020/user, or set "
                      f"{hadoop_client.SCHEMES_VARIABLE}")]

    gfile, errors = tf.io.gfile, tf.errors.OpError
    base = uri.rstrip("/")
    ours = f"{base}/.tfos-doctor-{uuid.uuid4().hex}"
    data = os.urandom(_BYTES)

    def find() -> str:
        return "a directory" if gfile.stat(uri).is_directory else "a file"

    def write() -> str:
        gfile.makedirs(ours)
        with gfile.GFile(f"{ours}/written", "wb") as file:
            file.write(data)
        return f"{_BYTES} bytes"

    def read() -> str:
        with gfile.GFile(f"{ours}/written", "rb") as file:
            if file.read() != data:
                raise OSError("other bytes came back than were written")
        return f"{_BYTES} bytes"

    def rename() -> str:
        gfile.rename(f"{ours}/written", f"{ours}/renamed")
        return ", ".join(gfile.listdir(ours))

    steps: list[tuple[str, Callable[[], str]]] = [
        ("start Java and look at the path", find),
        ("list it", lambda: f"{len(gfile.listdir(uri))} entries"),
        ("write below it", write),
        ("read that", read),
        ("rename it", rename),
    ]
    checks: list[Check] = []
    for what, step in steps:
        begin = time.monotonic()
        try:
            found = step()
        except (errors, OSError) as error:
            message = getattr(error, "message", None) or str(error)
            checks.append(Check(FAIL, what, message, "see the message, and docs/hdfs.md"))
            break
        checks.append(Check(OK, what, f"{found} ({time.monotonic() - begin:.2f} s)"))
    if len(checks) > steps.index(("write below it", write)):
        checks += _remove(gfile, errors, ours)
    return checks


def _remove(gfile: Any, errors: type[Exception], path: str) -> list[Check]:
    try:
        if gfile.exists(path):
            gfile.rmtree(path)
            return [Check(OK, "delete it", "gone")]
    except errors as error:
        return [Check(FAIL, "delete it", str(error), f"remove {path} yourself")]
    return []
