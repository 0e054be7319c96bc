"""``tfos doctor --hdfs URI``: uses a directory of Hadoop's step by step, as a program would.

It starts Java in this process, and reads with TensorFlow at the end, if that is installed. Below
the URI it makes a directory of its own and removes it again.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import json
import os
import threading
import time
import uuid
from collections.abc import Callable

from tfos.cli.checks import FAIL, OK, WARN, Check
from tfos.errors import TfosError
from tfos.files import hadoop_client
from tfos.files.access import access_for, scheme_of
from tfos.files.hadoop_settings import PROPERTIES_VARIABLE

#: For all steps together; the executable waits a minute longer for the report.
DEADLINE_SECONDS = 180
#: For removing what was written, when that has passed.
_REMOVE_SECONDS = 10

_BYTES = 1 << 20

#: A program is more patient with a NameNode that starts or changes.
_SHORT_TIMEOUTS = {
    "ipc.client.connect.timeout": "10000",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.max.retries.on.timeouts": "1",
    "ipc.client.rpc-timeout.ms": "30000",
    "dfs.client.failover.max.attempts": "4",
}


def shorten_timeouts() -> None:
    """Has Hadoop's client of this process give up soon, where ``TFOS_HADOOP_PROPERTIES`` does not
    say how long it is to try."""
    try:
        given = json.loads(os.environ.get(PROPERTIES_VARIABLE) or "{}")
    except ValueError:
        return  # The client says what is wrong with it.
    if isinstance(given, dict):
        os.environ[PROPERTIES_VARIABLE] = json.dumps({**_SHORT_TIMEOUTS, **given})


def hdfs_checks(uri: str, seconds: float = DEADLINE_SECONDS) -> list[Check]:
    """One check for each step, up to the first that fails or takes longer than is left of the
    time."""
    scheme = scheme_of(uri)
    if scheme not in hadoop_client.schemes():
        return [
            Check(
                FAIL,
                "scheme",
                f"{uri} is not one of {', '.join(hadoop_client.schemes())}",
                f"name a path such as hdfs://namenode:8020/user, or set "
                f"{hadoop_client.SCHEMES_VARIABLE}",
            )
        ]

    access, base = access_for(uri)
    ours = f"{base.rstrip('/')}/.tfos-doctor-{uuid.uuid4().hex}"
    data = os.urandom(_BYTES)

    def find() -> str:
        status = access.status(base)
        if status is None:
            raise FileNotFoundError(f"{base} is not there")
        return "a directory" if status.is_directory else "a file"

    def write() -> str:
        access.mkdirs(ours)
        with access.create(f"{ours}/written") as file:
            file.write(data)
        return f"{_BYTES} bytes"

    def read() -> str:
        with access.open(f"{ours}/written") as file:
            return _same(file.read(), data)

    def rename() -> str:
        access.rename(f"{ours}/written", f"{ours}/renamed")
        return ", ".join(os.path.basename(status.path) for status in access.list(ours))

    def read_by_tensorflow() -> str:
        import tensorflow as tf

        from tfos import tensorflow

        if scheme not in tensorflow.register_schemes():
            raise TfosError(f"{scheme}:// belongs to another file-system plugin")
        with tf.io.gfile.GFile(f"{ours}/renamed", "rb") as file:
            return f"{_same(file.read(), data)}, TensorFlow {tf.__version__}"

    def remove() -> str:
        access.delete(ours)
        return "gone"

    steps: list[tuple[str, Callable[[], str]]] = [
        ("start Java and look at the path", find),
        ("list it", lambda: f"{len(access.list(base))} entries"),
        ("write below it", write),
        ("read that", read),
        ("rename it", rename),
    ]
    has_tensorflow = importlib.util.find_spec("tensorflow") is not None
    if has_tensorflow:
        steps.append(("read it with TensorFlow", read_by_tensorflow))
    end = time.monotonic() + seconds
    checks: list[Check] = []
    for what, step in steps:
        checks.append(_run(what, step, uri, end - time.monotonic()))
        if checks[-1].level == FAIL:
            break
    else:
        if not has_tensorflow:
            checks.append(
                Check(
                    WARN,
                    "read it with TensorFlow",
                    "not tried: TensorFlow is not installed",
                    "install it for this Python, if programs are to use it",
                )
            )
    if len(checks) > steps.index(("write below it", write)):
        removed = _run("delete it", remove, uri, max(end - time.monotonic(), _REMOVE_SECONDS))
        if removed.level == FAIL:
            removed = Check(FAIL, removed.what, removed.found, f"remove {ours} yourself")
        checks.append(removed)
    return checks


def _same(read: bytes, written: bytes) -> str:
    if read != written:
        raise OSError("other bytes came back than were written")
    return f"{len(read)} bytes"


def _run(what: str, step: Callable[[], str], uri: str, seconds: float) -> Check:
    """Takes a step on a thread of its own: a call into Hadoop can't be interrupted, only left."""
    outcome: concurrent.futures.Future[str] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(step())
        except BaseException as error:  # `result` raises it again.
            outcome.set_exception(error)

    begin = time.monotonic()
    threading.Thread(target=run, daemon=True, name="tfos-doctor").start()
    concurrent.futures.wait([outcome], timeout=max(seconds, 0))
    took = time.monotonic() - begin
    if not outcome.done():
        return Check(
            FAIL,
            what,
            f"no answer for {uri} within {took:.0f} s",
            "see whether the NameNode runs and DataNodes do, whether the address is that of its "
            "RPC port, and whether a firewall drops packets between",
        )
    try:
        return Check(OK, what, f"{outcome.result()} ({took:.2f} s)")
    except Exception as error:  # Whatever Hadoop, and an installation of TensorFlow, may raise.
        message = getattr(error, "message", None) or str(error) or repr(error)
        return Check(FAIL, what, message, "see the message, and docs/hdfs.md")
