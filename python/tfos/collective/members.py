"""The nodes that train together, as the extension connects them: what is behind the functions of
:mod:`tfos.collective`."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfos import _native
from tfos.base.libraries import ops_library, ucx
from tfos.base.roles import members_of
from tfos.errors import BadInputError

#: How long the others may take to come to their first call, in seconds.
CONNECT_TIMEOUT = 600.0
#: After this many seconds without progress, the node's log says who is waited for.
STALL_AFTER = 30.0


class Group:
    """The training nodes of a cluster, as one of them sees them. Owner: the process, see
    :func:`tfos.collective.group`."""

    def __init__(
        self,
        nodes: Sequence[Mapping[str, Any]],
        node_id: int,
        key: str,
        listener: int,
        shared_memory: bool = True,
        encrypt: str = "auto",
        rdma: str = "false",
        timeline: str = "",
        link: Any = None,
        joins: bool = False,
        regroup_timeout: float = 60.0,
        feed: Any = None,
    ):
        """Waits until all of them have come here.

        Args:
            nodes: of the cluster, each a NODE of docs/formats/control-protocol.md.
            key: for tensors, in hexadecimal.
            listener: a descriptor of the socket that holds this node's ``tensor_port``.
            shared_memory: between nodes of one host that have set this.
            encrypt: "auto", "true" or "false", as ``spark.tfos.encrypt``.
            rdma: "true" for UCX between hosts, where it is there; "required" for nothing else.
            timeline: a directory for the file that says what operations took; "" for none.
            link: the node's to its agent, for a group that goes on without nodes that are lost.
            joins: the others have begun without this node. It does not wait for them here, and
                takes part once they have let it in (``come_in``).
            regroup_timeout: seconds that nodes may take to connect again when one was lost or
                comes in.
            feed: the node's :class:`tfos.feed.datafeed.FeedSource`, where Spark feeds the nodes and
                others may join: they come in between epochs then, and not after each step.
        """
        members = members_of(nodes)
        ranks = {node["node_id"]: node["rank"] for node in members}
        if node_id not in ranks:
            raise BadInputError(
                f"node {node_id} does not train, so it has no part in collective operations"
            )
        self._native = _native.TensorGroup.join(
            [(_name_of(node), node["address"], node["tensor_port"]) for node in members],
            ranks[node_id],
            key,
            listener,
            CONNECT_TIMEOUT,
            STALL_AFTER,
            shared_memory,
            encrypt,
            rdma,
            "" if rdma == "false" else ucx.packaged(),
            _timeline_path(timeline, members[ranks[node_id]]),
            link,
            [node["rank"] for node in members if node.get("state") not in ("expected", "lost")],
            joins,
            regroup_timeout,
        )
        #: Whether the group goes on without nodes that are lost.
        self.is_elastic: bool = link is not None
        self.feed = feed
        if self.is_elastic and feed is not None:
            self._native.follow_others_while_waiting(feed.server)
        #: Whether a node that has come in takes part in what gives it the weights.
        self.is_sharing = False
        self._ops = ops_library.load()
        self._handle = self._native.register(self._ops.add_group, self._ops.remove_group)
        #: The names of the nodes by rank, for messages.
        self.names: list[str] = [_name_of(node) for node in members]
        self.rank: int = self._native.rank
        self._close = self._native.close
        # Before TensorFlow waits for its threads, one of which may be waiting for another node.
        atexit.register(self.close, "its program has ended")

    @property
    def size(self) -> int:
        """How many members there are now; of a node that has not come in, how many may be."""
        return self._native.size or len(self.names)

    @property
    def ranks(self) -> list[int]:
        """Those of the members that there are now, in ascending order."""
        return self._native.ranks

    @property
    def has_state(self) -> bool:
        """Whether this node has the weights of those that train; one that joins has not."""
        return self._native.has_state

    def _check_state(self) -> None:
        """What a node that has come in, and has no weights yet, must not do: the others do
        something else."""
        if self.feed is not None and not self.is_sharing and not self.has_state:
            raise BadInputError(
                f"{self.names[self.rank]} joins nodes that train already: it takes part in what "
                "they do together from the beginning of `fit` on, and in nothing before"
            )

    def come_in(self) -> None:
        """For a node that joins: returns when the others have let it in."""
        self._native.come_in()

    def settle(self) -> None:
        """Returns when all have called it: then those that came in have the weights."""
        self._native.settle()

    def set_in_steps(self, in_steps: bool) -> None:
        """Whether this node calls ``meet_after_step`` after each step from now on."""
        self._native.set_in_steps(in_steps)

    def meet_after_step(self) -> bool:
        """Lets nodes in that wait for it, or waits for some where too few are left. True if all go
        on by giving the others the weights, and then ``settle``."""
        return self._native.meet_after_step()

    @property
    def seconds(self) -> tuple[float, float]:
        """What operations took so far, and what of that was waiting for other members."""
        return self._native.seconds

    @property
    def bytes(self) -> int:
        """How many bytes of tensors they summed up, sent and gathered so far."""
        return self._native.bytes

    @property
    def transport(self) -> str:
        """How tensors travel, for people: "shared memory", "tcp with TLS", "ucx
        (rc_mlx5/mlx5_0:1)"."""
        return self._native.transport

    def close(self, why: str) -> None:
        """Ends the group for all nodes: what they do next, or are doing, fails with ``why``."""
        self._close(why)

    def leave(self) -> None:
        """Takes part in what the others still do, with nothing of its own; returns when all have
        left."""
        self._native.leave()

    def all_reduce(
        self, tensors: list[tf.Tensor], weight: Any, name: str, wire: tf.DType | None = None
    ) -> list[tf.Tensor]:
        """The sums, or with ``weight`` the weighted means, of tensors of any of the types.
        ``wire``: what float32 is rounded to between hosts."""
        return self.all_reduce_with_weights(tensors, weight, name, wire)[0]

    def all_reduce_with_weights(
        self, tensors: list[tf.Tensor], weight: Any, name: str, wire: tf.DType | None = None
    ) -> tuple[list[tf.Tensor], tf.Tensor | None]:
        """Likewise, and the sum of everybody's ``weight``, which is never rounded to ``wire``; None
        without tensors."""
        self._check_state()
        reduced: list[Any] = [None] * len(tensors)
        total = None
        for dtype, places in _by_dtype(tensors).items():
            rounded = wire.as_datatype_enum if wire is not None and dtype == tf.float32 else 0
            results, total = self._ops.all_reduce(
                group=self._handle,
                weight=tf.cast(1.0 if weight is None else weight, tf.float64),
                average=int(weight is not None),
                wire=rounded,
                tensors=[tensors[place] for place in places],
                tag=_tag(name, tensors, places),
            )
            _put(results, places, tensors, reduced)
            total.set_shape([])
        return reduced, total

    def broadcast(self, tensors: list[tf.Tensor], root: int, name: str) -> list[tf.Tensor]:
        """The tensors of member ``root``."""
        self._check_state()
        received: list[Any] = [None] * len(tensors)
        for places in _by_dtype(tensors).values():
            results = self._ops.broadcast(
                group=self._handle,
                tensors=[tensors[place] for place in places],
                tag=_tag(name, tensors, places),
                root=root,
            )
            _put(results, places, tensors, received)
        return received

    def all_gather(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Everybody's rows, in the order of the members."""
        self._check_state()
        _check_type(tensor)
        row = tensor.shape[1:]
        gathered = self._ops.all_gather(
            group=self._handle,
            tensor=tensor,
            tag=f"{name} of rows {tensor.dtype.name}",
        ).gathered
        gathered.set_shape(tf.TensorShape([None]).concatenate(row))
        return gathered

    def barrier(self, name: str) -> None:
        """Returns when everybody has called it; in a tf.function, when that runs."""
        self._check_state()
        if tf.inside_function():
            # A stateful operation, so it keeps its place among the others.
            tf.py_function(lambda: self._native.barrier(name), [], [])
        else:
            self._native.barrier(name)


def _by_dtype(tensors: list[tf.Tensor]) -> dict[tf.DType, list[int]]:
    """Places by type, in an order that is the same on all nodes."""
    places: dict[tf.DType, list[int]] = {}
    for place, tensor in enumerate(tensors):
        _check_type(tensor)
        places.setdefault(tensor.dtype, []).append(place)
    return dict(sorted(places.items(), key=lambda item: item[0].as_datatype_enum))


def _check_type(tensor: tf.Tensor) -> None:
    if tensor.dtype in (tf.string, tf.resource, tf.variant):
        raise BadInputError(
            f"tensors of {tensor.dtype.name} can't be sent between nodes; encode them as numbers"
        )


def _tag(name: str, tensors: list[tf.Tensor], places: list[int]) -> str:
    """What the nodes compare besides the shapes, which the op puts in front."""
    count, dtype = len(places), tensors[places[0]].dtype.name
    return f"{name} of {dtype}" if count == 1 else f"{name} of {count} tensors of {dtype}"


def _put(results: Any, places: list[int], like: list[tf.Tensor], into: list[Any]) -> None:
    for place, result in zip(places, results, strict=True):
        result.set_shape(like[place].shape)
        into[place] = result


def _timeline_path(directory: str, node: Mapping[str, Any]) -> str:
    if not directory:
        return ""
    os.makedirs(directory, exist_ok=True)
    return os.path.join(directory, f"{node['job_name']}-{node['task_index']}.json")


def _name_of(node: Mapping[str, Any]) -> str:
    return f"{node['job_name']}:{node['task_index']} on host {node['host']}"
