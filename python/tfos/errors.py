"""The errors that tfos raises, by what the program can do about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class TfosError(RuntimeError):
    """Something failed in a cluster; the message says where, why and what to do."""


class FeedError(TfosError):
    """Rows could not be handed to a node, or its results could not be fetched."""


class NodeLostError(TfosError):
    """A node vanished silently: its process, its executor or its host died."""


class FeedTimeoutError(FeedError, TimeoutError):
    """Nothing moved between a feeder and a node for as long as allowed."""


class TensorError(TfosError):
    """Tensors could not be exchanged between nodes, or with a parameter server."""


class TensorTimeoutError(TensorError, TimeoutError):
    """Nodes or parameter servers did not come, or did not answer, for as long as allowed."""


class ResourceError(TfosError):
    """Memory, file descriptors, threads or disk are used up; the message says which and by what."""


class BadInputError(TfosError, ValueError):
    """An argument, a setting or data of the program is wrong: correct it."""


class ClusterTimeoutError(TfosError, TimeoutError):
    """The nodes did not do what was expected of them in time. The message names each of them and
    its state."""


class ClusterStoppedError(TfosError):
    """Somebody has ended the cluster with ``tfos stop``, or the driver program with
    ``cluster.stop()``; the message says who. Programs that Spark fed have ended after the step at
    hand, so what they save at their end is there."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Which node failed, at what, and why. What does not apply or is not known is None or empty.

    Attributes:
        node_id: number of the node in the cluster, from 0; None if no node is to blame.
        job_name: its role.
        task_index: its number among the nodes of that role.
        host: where it ran.
        executor_id: Spark's name of the executor that it ran beside.
        step: what it was doing, such as ``run the program``.
        message: what happened.
        traceback: of the program, where that raised an error.
        log_tail: the last lines that the node wrote.
        lost: whether the node was killed or died, and its program is not to blame.
        output_url: where Spark shows its executor's log.
    """

    node_id: int | None
    job_name: str
    task_index: int | None
    host: str
    executor_id: str
    step: str
    message: str
    traceback: str
    log_tail: tuple[str, ...]
    lost: bool
    output_url: str

    @classmethod
    def from_message(cls, failure: Mapping[str, Any]) -> Failure:
        """For tfos itself: reads a FAILURE of docs/formats/control-protocol.md."""
        node_id = failure.get("node_id", -1)
        return cls(
            node_id=node_id if node_id >= 0 else None,
            job_name=failure.get("job_name") or "",
            task_index=failure.get("task_index") if node_id >= 0 else None,
            host=failure.get("host") or "",
            executor_id=failure.get("executor_id") or "",
            step=failure.get("step") or "",
            message=failure.get("message") or "",
            traceback=failure.get("traceback") or "",
            log_tail=tuple(failure.get("log_tail") or ()),
            lost=bool(failure.get("lost")),
            output_url=failure.get("output_url") or "",  # The driver has asked Spark for it.
        )


class NodeFailedError(TfosError):
    """The cluster's first failure, with the remote traceback where there is one.

    Attributes:
        failure: the same as a :class:`tfos.errors.Failure`; None where the error comes from a Spark
            task, which has its text alone.
    """

    def __init__(self, message: str, failure: Failure | None = None):
        super().__init__(message)
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.failure)

    @classmethod
    def from_message(cls, failure: Mapping[str, Any]) -> NodeFailedError:
        """For tfos itself: the error for a FAILURE message, with who, where, at which step, why,
        and its evidence."""
        from tfos import _native

        text = _native.failure_text(json.dumps(failure))
        found = Failure.from_message(failure)
        if found.output_url:
            text = f"{text}\nSpark shows its executor's log at {found.output_url}"
        return cls(text, found)
