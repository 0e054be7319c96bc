"""The errors that tfos raises, by what the program can do about them."""

from __future__ import annotations

import json
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
    """Nodes did not do in time what was waited for; the message names each and its state."""


class ClusterStoppedError(TfosError):
    """Somebody has ended the cluster with ``tfos stop``, or the driver program with
    ``cluster.stop()``; the message says who. Programs that Spark fed have ended after the step at
    hand, so what they save at their end is there."""


class NodeFailedError(TfosError):
    """The cluster's first failure, with the remote traceback where there is one.

    Attributes:
        failure: the FAILURE of docs/formats/control-protocol.md.
    """

    def __init__(self, message: str, failure: dict[str, Any] | None = None):
        super().__init__(message)
        self.failure = failure or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.failure)

    @classmethod
    def from_message(cls, failure: dict[str, Any]) -> NodeFailedError:
        """For tfos itself: the error for a FAILURE message, with who, where, at which step, why,
        and its evidence."""
        from tfos import _native

        text = _native.failure_text(json.dumps(failure))
        url = failure.get("output_url")  # The driver has asked Spark for it.
        return cls(f"{text}\nSpark shows its executor's log at {url}" if url else text, failure)
