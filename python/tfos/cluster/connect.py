"""The way to a coordinator on an executor, for a client of Spark Connect.

The client may reach neither the executors nor they the client. So it asks the keeper
(:mod:`tfos.cluster.keeper`) through Spark's server, in calls that take no task slot
(:meth:`tfos.spark.connect.ConnectContext.on_server`). Each call renews the lease.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tfos.base import keys
from tfos.cluster import keeper
from tfos.cluster.coordinator import Channel
from tfos.cluster.coordinator_process import CoordinatorProcess
from tfos.cluster.plan import ClusterPlan
from tfos.errors import NodeFailedError, TfosError
from tfos.spark.connect import ConnectContext, ConnectTasks
from tfos.spark.jobs import SparkJob

logger = logging.getLogger(__name__)

#: How long the keeper may wait with its answer for the next event.
_WAIT_MS = 2000
#: Calls that must not all fail before one has reached the keeper.
_FIRST_ATTEMPTS = 3
#: How long a message waits for others. A call takes Spark's server a tenth of a second, and some
#: messages come together, as at the end of an epoch.
_GATHER_SECONDS = 0.005
#: The most bytes that go together, far below what the keeper takes.
_GATHER_BYTES = 1 << 20
#: Between two looks at the lease.
_LOOK_SECONDS = 1.0
#: Between two calls when one has failed.
_PAUSE_SECONDS = 1.0
#: Why it did not start.
_NO_SLOT = (
    "no executor slot came for the task that starts it. Other jobs hold the slots of Spark's "
    "server, or it has no executors. Free cores, or give the server more executors or cores"
)
_SLOW_START = (
    "the task that starts it runs on an executor, but has not answered. Look at the output of the "
    "executors' Python workers, and raise registration_timeout if their hosts are slow"
)


class RemoteCoordinator:
    """A ``tfos coordinator`` on an executor, as :class:`tfos.cluster.coordinator.Channel` has it.

    Owner and lifetime: the :class:`tfos.cluster.coordinator.Coordinator`. When this process dies
    instead, nobody renews the lease, and the keeper ends the cluster.
    Threads: one asks for events and one sends; the methods may be called from any.
    Errors: what can't be reached for as long as the lease, has ended.
    """

    def __init__(self, context: ConnectContext, plan: ClusterPlan):
        """The executor beside it has the ResourceProfile of the plan's nodes."""
        self._context = context
        self._profile = plan.profile
        self._registration_timeout = plan.request.registration_timeout
        self._lease = plan.settings.connect_lease
        self._ports = plan.settings.coordinator_port
        self.pid = -1
        self.name = "not started"
        self._call: Callable[[str], str] = lambda request: ""
        self._events: queue.Queue[str | None] = queue.Queue()
        self._messages: queue.Queue[str | None] = queue.Queue()
        self._trouble = ""
        self._reached = 0.0
        self._told_of_alteration = False
        self._why_unreached = "Spark Connect's server does not answer. It may have died"
        self._ended = threading.Event()
        self._held: list[ConnectTasks] = []

    def listen(self, start: dict[str, Any]) -> dict[str, Any]:
        """Starts it in a Spark task and returns its ``listening``. A task that Spark does not run
        in time is cancelled, and :class:`NodeFailedError` says why."""
        bootstrap = {"start": start, "lease": self._lease, "ports": self._ports}
        first = self._on_executor(start["cluster_id"], partial(keeper.start, bootstrap))
        if first["type"] != "listening":
            raise TfosError(f"the coordinator did not start on an executor: {first['message']}")
        self.pid = first["pid"]
        self.name = f"process {self.pid} beside {first['place']}"
        key = keys.key_for(start["token"], "steer")
        asking = _asking(
            first["address"], first["keeper_port"], keeper.PATH, key, first["certificate"]
        )
        self._call = self._context.on_server(f"tfos_{start['cluster_id']}", asking)
        self._reached = time.monotonic() + keeper.FIRST_CALL_SECONDS
        for target in (self._ask_again_and_again, self._send_all):
            threading.Thread(target=target, name="tfos-connect", daemon=True).start()
        return first

    def _on_executor(self, cluster_id: str, function: Callable[[], Any]) -> Any:
        job = SparkJob(
            self._context,
            f"tfos-{cluster_id}-coordinator",
            f"tfos: start the coordinator of {self._context.appName}",
            lambda: self._context.run_on_executor(function, self._profile, self._held),
            lambda job: None,
        )
        try:
            if job.wait(self._registration_timeout):
                return job.result()
            running, _ = job.task_counts()
            message = (
                f"the coordinator did not start within {self._registration_timeout:g} s "
                f"(registration_timeout): {_SLOW_START if running else _NO_SLOT}"
            )
            raise NodeFailedError.from_message(
                {"node_id": -1, "step": "start the cluster", "message": message}
            )
        finally:  # Ctrl-C, too, leaves no job behind that waits for a slot.
            if not job.done:
                job.cancel()

    def send(self, line: str) -> None:
        """Sends a message soon, after those before it."""
        self._messages.put(line)

    def lines(self) -> Iterator[str]:
        """What it says, until it ends or can't be reached."""
        while True:
            try:
                line = self._events.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._check_lease()
                continue
            if line is None:
                return
            yield line

    def kill(self) -> None:
        """Its keeper ends it when nobody asks."""
        self._ended.set()

    def how_it_ended(self) -> str:
        """For people."""
        return self._trouble

    def await_end(self, timeout: float) -> None:
        """Waits until it has ended, as it was told; after ``timeout`` seconds leaves it to the
        lease."""
        if not self._ended.wait(timeout):
            logger.warning(
                "the coordinator (%s) did not say within %g s that it has ended; it ends by itself "
                "%g s after the last call that reached it",
                self.name,
                timeout,
                self._lease,
            )
        self._end("was left to its lease")

    def close(self) -> None:
        """Ends the threads, and lets go of its executor."""
        self._messages.put(None)
        for tasks in self._held:
            tasks.unpersist()

    def _end(self, trouble: str) -> None:
        self._trouble = self._trouble or trouble
        self._ended.set()
        self._events.put(None)

    def _check_lease(self) -> None:
        """Ends it when it was not reached for as long as the lease: it has ended itself by then."""
        if time.monotonic() - self._reached >= self._lease:
            self._end(
                f"was not reached for {self._lease:g} s (spark.tfos.connect.lease) and has ended "
                f"by itself: {self._why_unreached}"
            )

    def _ask_again_and_again(self) -> None:
        """Body of the thread that takes the events."""
        after, attempts = 0, 0
        while not self._ended.is_set():
            answer, trouble = self._ask({"lines": [], "after": after, "wait_ms": _WAIT_MS})
            if answer is None:
                self._why_unreached = trouble
                attempts += 1
                if after == 0 and attempts == _FIRST_ATTEMPTS:
                    self._end(
                        f"was never reached: {trouble}. Spark's server needs Python with pyspark "
                        "(PYSPARK_PYTHON in its environment), and must reach the executors' hosts "
                        "on the ports of spark.tfos.coordinator.port"
                    )
                elif after and trouble.startswith(_GONE):
                    self._end(f"can't be reached any more: {trouble}")
                self._ended.wait(_PAUSE_SECONDS)
                continue
            self._reached, after = time.monotonic(), answer["next"]
            for event in answer["events"]:
                self._events.put(event)
            if answer["end"] is not None:
                self._end(answer["end"])

    def _send_all(self) -> None:
        """Body of the thread that sends the messages, with the number of the first in each call:
        those that the keeper has taken, though no answer came, are not taken again."""
        number = 0
        while lines := self._gathered():
            answer = None
            while answer is None and not self._ended.is_set():
                answer, trouble = self._ask({"lines": lines, "first": number})
                if answer is None:
                    logger.debug("messages for the coordinator are sent again: %s", trouble)
                    self._ended.wait(_PAUSE_SECONDS)
            number += len(lines)

    def _gathered(self) -> list[str]:
        """The next messages, once there is one; none when no more come."""
        lines: list[str] = []
        with contextlib.suppress(queue.Empty):
            while sum(map(len, lines)) < _GATHER_BYTES:
                line = self._messages.get(timeout=_GATHER_SECONDS if lines else None)
                if line is None:
                    self._messages.put(None)  # for the next call
                    break
                lines.append(line)
        return lines

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """The keeper's answer, or None and why there is none."""
        try:
            answer = json.loads(self._call(json.dumps(request)))
        except Exception as error:  # Spark's and gRPC's, of many kinds: none may end the thread
            text = str(error).partition("\n")[0]
            return None, f"Spark Connect's server: {type(error).__name__}: {text}"
        if "trouble" not in answer:
            return answer, ""
        trouble: str = answer["trouble"]
        if _ALTERED in trouble and not self._told_of_alteration:
            self._told_of_alteration = True
            logger.warning(
                "the coordinator's keeper was not reached, and is asked again: %s", trouble
            )
        return None, trouble


def channel_to(context: Any, plan: ClusterPlan) -> Callable[[], Channel]:
    """Where the coordinator runs: beside the driver, or beside an executor where the driver program
    is a client of Spark Connect."""
    if isinstance(context, ConnectContext):
        return partial(RemoteCoordinator, context, plan)
    return CoordinatorProcess


#: Nothing listens on its port.
_GONE = "gone"
#: As all of tfos says it.
_ALTERED = "altered in transit"


def _asking(address: str, port: int, path: str, key: str, certificate: str) -> Callable[[str], str]:
    """What runs on Spark's server, which may lack tfos: asks the keeper that has this certificate,
    and no other."""

    def ask(request: str) -> str:
        import http.client
        import json
        import ssl

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.minimum_version = ssl.TLSVersion.TLSv1_3
        tls.check_hostname = False  # The certificate is the keeper's own, wherever it runs.
        tls.load_verify_locations(cadata=certificate)
        connection = http.client.HTTPSConnection(address, port, timeout=20, context=tls)
        try:
            connection.request("POST", path, request, {"Authorization": f"Bearer {key}"})
            response = connection.getresponse()
            body = response.read().decode()
            if response.status == 200:
                return body
            trouble = f"the keeper at {address}:{port} answered {response.status}"
        except ssl.SSLCertVerificationError:
            trouble = f"gone: something else than the keeper listens at {address}:{port}"
        except ConnectionRefusedError:
            trouble = f"gone: nothing listens at {address}:{port}, so its executor was lost"
        except (OSError, http.client.HTTPException) as error:
            trouble = f"the server can't reach the executor at {address}:{port}: {error}"
            if isinstance(error, ssl.SSLError) and "BAD_RECORD_MAC" in str(error.reason):
                trouble = (
                    f"data between the server and the executor at {address}:{port} was altered in "
                    f"transit: {error}"
                )
        finally:
            connection.close()
        return json.dumps({"trouble": trouble})

    return ask
