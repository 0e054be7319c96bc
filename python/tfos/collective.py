"""Tensors between the nodes that train together: sums, means, broadcasts.

    from tfos import collective

    def train(ctx):
        ...
        gradients = collective.all_reduce(tape.gradient(loss, variables))    # the mean of all nodes

Every training node (chief or master, and workers) must call the same functions in the same order,
in eager code or in a ``tf.function``. The first call connects the nodes. ``ctx.distribute`` does
all of it for a Keras optimizer.

Errors: ``tf.errors.UnavailableError`` with the name of the node that is gone or gave up, from
``barrier`` :class:`tfos.errors.TfosError` or, in a ``tf.function``, ``tf.errors.UnknownError``;
``tf.errors.InvalidArgumentError`` naming both when two nodes do different things. Nothing can be
done with the other nodes any more then.
A node whose program ends before those of the others has left: they go on without it, and their
means are over those who have not left.

Threads: any, but the order of calls must be the same on all nodes.
"""

from __future__ import annotations

import atexit
import os
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfos import _native
from tfos.base import ops_library, ucx
from tfos.base.roles import TRAINING_JOBS, members_of
from tfos.errors import BadInputError

#: How long the others may take to come to their first call, in seconds.
CONNECT_TIMEOUT = 600.0
#: After so many seconds without progress the node's log says who is waited for.
STALL_AFTER = 30.0


class Group:
    """The training nodes of a cluster, as one of them sees them. Owner: the process, see
    :func:`group`."""

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
        """
        members = members_of(nodes)
        ranks = {node["node_id"]: node["rank"] for node in members}
        if node_id not in ranks:
            raise BadInputError(
                f"node {node_id} does not train, so it has no part in collective "
                f"operations; those of "
                f"{', '.join(TRAINING_JOBS)} have"
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
        self._ops = ops_library.load()
        self._handle = self._native.register(self._ops.add_group, self._ops.remove_group)
        #: Of the nodes by rank, for messages.
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
    def has_state(self) -> bool:
        """Whether this node has the weights of those that train; one that joins has not."""
        return self._native.has_state

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
        reduced: list[Any] = [None] * len(tensors)
        for dtype, places in _by_dtype(tensors).items():
            rounded = wire.as_datatype_enum if wire is not None and dtype == tf.float32 else 0
            results = self._ops.all_reduce(
                group=self._handle,
                weight=tf.cast(1.0 if weight is None else weight, tf.float64),
                average=int(weight is not None),
                wire=rounded,
                tensors=[tensors[place] for place in places],
                tag=_tag(name, tensors, places),
            )
            _put(results, places, tensors, reduced)
        return reduced

    def broadcast(self, tensors: list[tf.Tensor], root: int, name: str) -> list[tf.Tensor]:
        """The tensors of member ``root``."""
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
        row = f"{name} of rows {tensor.dtype.name}{tensor.shape[1:]}"
        gathered = self._ops.all_gather(group=self._handle, tensor=tensor, tag=row)
        gathered.set_shape([None, *tensor.shape[1:]])
        return gathered

    def barrier(self, name: str) -> None:
        """Returns when everybody has called it; in a tf.function, when that runs."""
        if tf.inside_function():
            # A stateful operation, so it keeps its place among the others.
            tf.py_function(lambda: self._native.barrier(name), [], [])
        else:
            self._native.barrier(name)


_cluster: tuple[tuple[Any, ...], dict[str, Any]] | None = None
_group: Group | None = None
_may_lose_nodes = False
_joining = threading.Lock()


def use(
    nodes: Sequence[Mapping[str, Any]], node_id: int, key: str, listener: int, **options: Any
) -> None:
    """Says which cluster this process is a node of; ``tfos.node`` does. Connects nothing yet.
    Arguments are those of :class:`Group`; with ``may_lose_nodes`` there is to be none."""
    global _cluster, _may_lose_nodes
    _may_lose_nodes = options.pop("may_lose_nodes", False)
    _cluster = ((nodes, node_id, key, listener), options)


def prefer_rdma() -> None:
    """Has this node exchange tensors over UCX where that is there, as ``spark.tfos.rdma=true`` does
    for all. For programs that ask for it themselves, before their first collective operation.
    Raises :class:`tfos.errors.BadInputError` after that, and where the cluster encrypts
    everything."""
    global _cluster
    with _joining:
        if _group is not None:
            raise BadInputError(
                "this node is connected to the others already: ask for rdma before "
                "its first collective operation"
            )
        if _cluster is not None:
            arguments, options = _cluster
            if options.get("encrypt") == "true":
                raise BadInputError(
                    'rdma=True: this cluster encrypts everything (encrypt="true"), which UCX '
                    "can't: leave one away"
                )
            if options.get("rdma", "false") == "false":
                _cluster = (arguments, {**options, "rdma": "true"})


def leave() -> None:
    """Says that this program has done all it does with the others, and waits for them;
    ``tfos.node`` does when a program has ended. They go on meanwhile: sums and means are over those
    who have not left."""
    if _group is not None:
        _group.leave()


def group() -> Group:
    """The group of this process; the first call waits for the other nodes."""
    global _group
    with _joining:
        if _group is None:
            if _cluster is None:
                raise BadInputError(
                    "collective operations are for nodes: call them in the program "
                    "that tfos.run starts"
                )
            if _may_lose_nodes:
                raise BadInputError(
                    "ctx.distribute and tfos.collective are for nodes that train in step, which "
                    "can't go on without a lost one: they do not go with max_lost_nodes"
                )
            with tf.init_scope():
                arguments, options = _cluster
                _group = Group(*arguments, **options)
        return _group


def rank() -> int:
    """This node's number among the training nodes, from 0; the chief or master has 0."""
    return group().rank


def size() -> int:
    """How many nodes train together now."""
    return group().size


def all_reduce(
    tensors: Any,
    op: str = "mean",
    *,
    weight: Any = None,
    compression: str | None = None,
    name: str = "all_reduce",
) -> Any:
    """The mean or sum of everybody's ``tensors``, bit for bit identical on all nodes.

    Args:
        tensors: a tensor, ``tf.IndexedSlices``, None, or a structure of them: float32, float64,
            float16, bfloat16, and for sums int32 and int64. Shapes must be the same everywhere;
            IndexedSlices (gradients of embeddings) may have any number of rows, and give the rows
            of all nodes.
        op: "mean" or "sum".
        weight: of this node's tensors in a mean, such as its number of rows; 1 by default. A node
            with weight 0 just takes part.
        compression: "bfloat16" or "float16": float32 tensors (of more than 32 KiB together) are
            rounded to that where they travel between hosts, which takes half the time on a slow
            network. Sums are made in float32 and are the same on every node. Beyond 65504
            float16 becomes infinite.
        name: for messages.
    """
    wire = wire_of(compression)
    if op not in ("mean", "sum"):
        raise BadInputError(f"op={op!r} is neither 'mean' nor 'sum'")
    if op == "sum" and weight is not None:
        raise BadInputError("a sum has no weights; op='mean' has")
    if op == "mean" and weight is None:
        weight = 1.0
    flat = tf.nest.flatten(tensors)
    if any(isinstance(tensor, tf.IndexedSlices) for tensor in flat) and group().is_elastic:
        # Rows, indices and weights are gathered one after the other, by members that may differ.
        flat = [
            tf.convert_to_tensor(tensor) if isinstance(tensor, tf.IndexedSlices) else tensor
            for tensor in flat
        ]
    sparse = [place for place, tensor in enumerate(flat) if isinstance(tensor, tf.IndexedSlices)]
    dense = [
        place for place, tensor in enumerate(flat) if tensor is not None and place not in sparse
    ]
    result: list[Any] = [None] * len(flat)
    values = [tf.convert_to_tensor(flat[place]) for place in dense]
    for value in values:
        if op == "mean" and not value.dtype.is_floating:
            raise BadInputError(f"{value.dtype.name} has no mean here; cast it, or take op='sum'")
    if values:
        for place, value in zip(dense, group().all_reduce(values, weight, name, wire), strict=True):
            result[place] = value
    if sparse:
        _reduce_slices(flat, sparse, weight, name, result)
    return tf.nest.pack_sequence_as(tensors, result)


def wire_of(compression: str | None) -> tf.DType | None:
    """What float32 is sent as."""
    if compression is None:
        return None
    if compression not in ("float16", "bfloat16"):
        raise BadInputError(
            f"compression={compression!r} is neither 'bfloat16' nor 'float16' nor None"
        )
    return tf.as_dtype(compression)


def _reduce_slices(
    flat: list[Any], places: list[int], weight: Any, name: str, result: list[Any]
) -> None:
    share = None
    if weight is not None:
        (total,) = group().all_reduce([tf.cast(weight, tf.float64)], None, f"{name} (weights)")
        share = tf.math.divide_no_nan(tf.cast(weight, tf.float64), total)
    for place in places:
        slices = flat[place]
        # Nothing of a node without weight, whatever it is.
        values = (
            slices.values
            if share is None
            else tf.math.multiply_no_nan(slices.values, tf.cast(share, slices.values.dtype))
        )
        result[place] = tf.IndexedSlices(
            group().all_gather(values, f"{name} (rows)"),
            group().all_gather(slices.indices, f"{name} (indices)"),
            slices.dense_shape,
        )


def broadcast(tensors: Any, root: int = 0, *, name: str = "broadcast") -> Any:
    """The ``tensors`` of node ``root`` (a rank), of any type but strings, on every node."""
    flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
    return tf.nest.pack_sequence_as(tensors, group().broadcast(flat, root, name) if flat else [])


def broadcast_variables(
    variables: Iterable[Any], root: int = 0, *, name: str = "broadcast"
) -> None:
    """Gives variables (TensorFlow's or Keras') the values that they have on node ``root``."""
    variables = list(variables)
    for variable, value in zip(
        variables,
        broadcast([tf.convert_to_tensor(v) for v in variables], root, name=name),
        strict=True,
    ):
        variable.assign(value)


def all_gather(tensors: Any, *, name: str = "all_gather") -> Any:
    """The rows of everybody's ``tensors`` (a tensor, or a structure of them), one node after the
    other. Nodes may have different numbers of rows."""
    flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
    if any(tensor.shape.rank == 0 for tensor in flat):
        raise BadInputError("all_gather takes tensors of rows, and this has a single value")
    return tf.nest.pack_sequence_as(tensors, [group().all_gather(tensor, name) for tensor in flat])


def barrier(name: str = "barrier") -> None:
    """Returns when every node has called it, in eager code or in a ``tf.function``."""
    group().barrier(name)


def _by_dtype(tensors: list[tf.Tensor]) -> dict[tf.DType, list[int]]:
    """Places by type, in an order that is the same on all nodes."""
    places: dict[tf.DType, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if tensor.dtype == tf.string:
            raise BadInputError("strings can't be sent between nodes; encode them as numbers")
        places.setdefault(tensor.dtype, []).append(place)
    return dict(sorted(places.items(), key=lambda item: item[0].as_datatype_enum))


def _tag(name: str, tensors: list[tf.Tensor], places: list[int]) -> str:
    """What the nodes compare besides the number of elements: the name, and what is in the tensors.
    Compared are 256 bytes, so of many shapes the last are in the checksum only."""
    dtype = tensors[places[0]].dtype.name
    shapes = [str(tensors[place].shape) for place in places]
    if len(shapes) == 1:
        return f"{name} of {dtype}{shapes[0]}"
    text = " ".join(shape.replace(" ", "") for shape in shapes)
    return f"{name} of {len(shapes)} tensors {zlib.crc32(text.encode()):08x}: {dtype} {text}"


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
