"""What a program sees of the cluster from inside a node."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Union

from tfos.base.roles import CHIEF_JOBS, members_of
from tfos.errors import BadInputError
from tfos.feed.columns import Request
from tfos.feed.datafeed import VALIDATION_QUEUE, DataFeed, FeedSource
from tfos.files import paths
from tfos.node import collectives
from tfos.node_status import NodeStatus

if TYPE_CHECKING:
    import tensorflow as tf

    from tfos.base.arrow import pa
    from tfos.feed.batches import Batches
    from tfos.parameter_server import ParameterServer

#: A column by name or position, some of them, or (None) those that are left.
Columns = Union[str, int, Sequence[Union[str, int]], None]

#: A path, a pattern, or several of them.
Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def tensorflow_cluster(bootstrap: dict[str, Any]) -> dict[str, list[str]]:
    """The addresses of the nodes in which TensorFlow runs, by job: not those of native parameter
    servers."""
    cluster = dict(bootstrap["cluster_spec"])
    if bootstrap["node"].get("parameter_servers"):
        del cluster["ps"]
    return cluster


class NodeContext:
    """The ``ctx`` that is passed to the program in every node.

    Owner and lifetime: made by the node process before the program is called; valid until the
    program returns. Threads: use it from any, a :class:`tfos.feed.datafeed.DataFeed` from one at a
    time.

    Attributes:
        node_id: number of the node in the cluster, from 0.
        executor_id: Spark's name of the executor that the node runs beside.
        job_name: ``chief``, ``master``, ``worker``, ``ps`` or ``evaluator``.
        task_index: number within its job, from 0.
        cluster_spec: dict of job name to list of ``host:port``.
        host, address, port: where other nodes reach this one.
        default_fs, working_dir: Spark's default file system and the driver's working directory.
        gpus: the GPUs of this node.
        gpu_fraction: the node's share of a GPU that nodes share, else 0.0.
        log_dir: where the program should write its summaries, or None.
        args: what the driver passed as ``args``.
    """

    def __init__(
        self,
        bootstrap: dict[str, Any],
        args: Any,
        feed_source: Any,
        reporter: Any,
        port_socket: socket.socket | None,
    ):
        node = bootstrap["node"]
        self.node_id: int = bootstrap["node_id"]
        self.executor_id: str = bootstrap["executor_id"]
        self.job_name: str = bootstrap["job_name"]
        self.task_index: int = bootstrap["task_index"]
        self.cluster_spec: dict[str, list[str]] = tensorflow_cluster(bootstrap)
        self.host: str = bootstrap["host"]
        self.address: str = bootstrap["address"]
        self.port: int = bootstrap["port"]
        self.gpus: list[str] = bootstrap["gpus"]
        self.gpu_fraction: float = bootstrap["gpu_fraction"]
        self.default_fs: str = node["default_fs"]
        self.working_dir: str = node["working_dir"]
        self.log_dir: str | None = node["log_dir"]
        self.args = args
        self._port_socket = port_socket
        self._shared_port_socket: socket.socket | None = None
        self._feed_source = feed_source
        self._reporter = reporter
        self._may_lose_nodes: bool = node.get("may_lose_nodes", False)
        self._elastic: bool = node.get("elastic", False)
        self._bootstrap = bootstrap

    @functools.cached_property
    def nodes(self) -> list[NodeStatus]:
        """Every node of the cluster, as it was when this one started."""
        return [NodeStatus.from_message(node) for node in self._bootstrap["nodes"]]

    @property
    def rank(self) -> int:
        """The number of this node among those that train, from 0: the chief is 0. Shares of data go
        by it: ``rows[ctx.rank :: ctx.size]``. BadInputError on nodes that don't train."""
        ranks = {node["node_id"]: node["rank"] for node in members_of(self._bootstrap["nodes"])}
        if self.node_id not in ranks:
            raise BadInputError(
                f"{self.job_name}:{self.task_index} does not train, so it has no rank"
            )
        return ranks[self.node_id]

    @property
    def size(self) -> int:
        """How many nodes train (chief, master and workers)."""
        return self._bootstrap["num_workers"]

    @property
    def is_chief(self) -> bool:
        """Whether this node writes what only one node should: the chief or master, else worker
        0."""
        if self.job_name in CHIEF_JOBS:
            return True
        has_chief = any(job in self.cluster_spec for job in CHIEF_JOBS)
        return self.job_name == "worker" and self.task_index == 0 and not has_chief

    @functools.cached_property
    def feed(self) -> DataFeed:
        """The rows of ``cluster.train`` and ``cluster.inference``, from the queue ``"input"``. A
        batch of the latter ends with its partition, so that it can be answered. For the other
        queue, use ``data_feed(queue="validation")``."""
        return self.data_feed()

    def data_feed(
        self,
        train: bool = False,
        queue: str = "input",
        input_mapping: dict[str, str] | None = None,
    ) -> DataFeed:
        """The rows that Spark feeds to this node, in batches of any size.

        A batch of ``cluster.inference`` ends with its partition, unless ``train`` is set: its last
        rows may need their answers before more come. Each of its rows must be answered through
        ``batch_results``.

        Args:
            train: whether a batch crosses the end of an inference partition.
            queue: that rows come from: ``"input"`` or ``"validation"``. Results always go back to
                their partition.
            input_mapping: column to tensor name: batches become ``{tensor: NumPy array}``. Where
                rows have names (those of a DataFrame, Rows and dicts) a column is the field of its
                name; else field i of a row is column i in sorted order.
        """
        if self._elastic:
            raise BadInputError(
                "with nodes=(least, most) the rows that Spark feeds are read in step by all nodes: "
                "use ctx.dataset or ctx.batches"
            )
        return DataFeed(self._fed(), train, queue, input_mapping)

    def dataset(
        self,
        batch_size: int,
        *,
        features: Columns = None,
        label: Columns = None,
        drop_remainder: bool = False,
        remainder: str | None = None,
        ragged: Sequence[str | int] = (),
        queue: str = "input",
        spec: Any = None,
    ) -> tf.data.Dataset:
        """The rows of ``cluster.train`` as a ``tf.data.Dataset`` of whole batches: columns that
        TensorFlow uses where Spark's task has put them, with no Python in between.

        One pass over the dataset is one epoch of ``train``: ``model.fit(ctx.dataset(128),
        epochs=3)`` goes with ``cluster.train(rows, epochs=3)``. A pass that is left early is
        continued by the next one. Epochs may differ in length. Leave ``steps_per_epoch`` and
        ``repeat()`` out: validation, joining nodes and ``resume=`` need epochs of ``fit`` that are
        those of the feed. After its end a pass is empty. Batches do not cross epochs.

        An element is the tensor of the only column; a tuple of two; a dict of more, by name. A
        column has the name of its Row field or dict key, else its position ("0", "1", ...). A row
        that is a list or tuple of numbers of one type is one column. With ``features`` or ``label``
        it is ``(features, label)``, each the tensor of one column or a dict of several; without
        ``label`` just the features, without ``features`` all columns but the label.

        Waits for the first row, which says what the columns hold, unless ``spec`` is given.

        Args:
            batch_size: rows of a batch; the last one of an epoch may have fewer.
            features, label: name (or position) of a column, or a list of them.
            drop_remainder: throw that last one away, as ``batch`` of ``tf.data`` can: the batch
                dimension is static then. Each node does so for itself, so their numbers of batches
                may differ, and nodes may be lost. ``remainder="drop"`` makes the numbers equal.
            remainder: how nodes that train in step end an epoch, as none gets exactly as many rows
                as another. None: each makes batches of what it gets, at its own speed; with
                ``nodes=(least, most)`` it is ``"join"``.
                ``"join"``: nodes pass rows on at the end of an epoch, so that the rows of two nodes
                differ by less than a batch, and each makes batches of all its rows. That is for
                training in which nodes without rows go along with the others, as ``fit`` with
                ``distribute``.
                ``"drop"``: each makes as many full batches as the node with the fewest, and the
                rest is dropped. ``"pad"``: each makes as many full batches as the node with the
                most. Rows of zeros (empty strings and lists) fill them up. An element is
                ``(features, label, mask)``, or ``(element, mask)`` without ``label``. The float32
                mask is 1 for rows that were fed and 0 for the others: Keras takes it for sample
                weights. Every node must say the same.
            ragged: columns whose values vary in length, as ``tf.RaggedTensor``.
            queue: the queue that ``cluster.train`` feeds; ``"validation"`` has the columns of
                ``"input"``, and the rows of ``train(validation=...)``.
            spec: what one row holds: a ``tf.TensorSpec`` or ``tf.RaggedTensorSpec`` for each column
                in a dict by name, or in a list by position.
        """
        from tfos.feed.dataset import make_dataset  # TensorFlow is imported only where it is used.

        request = Request(batch_size, features, label, drop_remainder, remainder, ragged, spec)
        if self._elastic and self._bootstrap.get("joins") and spec is None:
            from tfos import collective

            # It gets its first row in the epoch that it takes part in.
            collective.group().come_in()
        return make_dataset(*self._batch_source(queue, request))

    def batches(
        self,
        batch_size: int,
        *,
        features: Columns = None,
        label: Columns = None,
        drop_remainder: bool = False,
        remainder: str | None = None,
        ragged: Sequence[str | int] = (),
        queue: str = "input",
        spec: Any = None,
    ) -> Batches:
        """The rows of ``cluster.train`` as batches of NumPy arrays, for JAX, PyTorch and other
        libraries; TensorFlow is not needed. Iterate over it once for each epoch, or give it to
        ``fit`` of Keras 3 with the JAX or PyTorch backend.

        Passes, arguments and elements are those of :meth:`dataset`, with an array in place of each
        tensor. Arrays belong to the program. ``torch.from_dlpack`` and ``jax.dlpack.from_dlpack``
        take those of numbers without a copy. Strings are arrays of ``bytes``, with text in UTF-8. A
        ragged column is a :class:`tfos.feed.batches.Ragged`. ``spec`` has for each column what
        ``numpy.dtype`` takes: ``{"pixels": ("float32", (784,)), "label": "int64", "name": str}``,
        and for a ragged one the type of its values.
        """
        from tfos.feed.batches import Batches

        request = Request(batch_size, features, label, drop_remainder, remainder, ragged, spec)
        return Batches(*self._batch_source(queue, request))

    def _batch_source(self, queue: str, request: Request) -> tuple[Any, Request, Any]:
        """The source of a queue's batches, the request, and the source that knows the columns, if
        that is another one."""
        if self._may_lose_nodes and request.remainder is not None:
            raise BadInputError(
                f"remainder={request.remainder!r} is for nodes that train in step, which can't go "
                f"on without "
                "a lost one: it does not go with max_lost_nodes"
            )
        if self._elastic and request.remainder is None and queue != VALIDATION_QUEUE:
            # Nodes that are left after a loss share out what it had left: they must be in step.
            request = request._replace(remainder="join")
        request = request._replace(node=f"{self.job_name}:{self.task_index}")
        feed = self._fed()
        comes = self._bootstrap.get("joins", False)
        if self._elastic and request.spec is None and queue != VALIDATION_QUEUE and not comes:
            # Nodes that wait to join are not waited for then.
            feed.batch_source(queue).tell_epoch()
        # The first row of that queue comes when the first epoch of this one has been fed.
        like = feed.batch_source("input") if queue == VALIDATION_QUEUE else None
        return feed.batch_source(queue), request, like

    def files(self, pattern: Paths) -> list[str]:
        """This node's share of the files that ``pattern`` (a file, a directory, a pattern, or
        several) means, balanced by bytes; paths are completed as by ``absolute_path``. Every file
        is in the share of one node that trains; other nodes have none."""
        from tfos.node import files as node_files

        patterns = [pattern] if isinstance(pattern, (str, os.PathLike)) else pattern
        return node_files.share(
            [self.absolute_path(one) for one in patterns], self._bootstrap["nodes"], self.node_id
        )

    def tfrecords(
        self,
        pattern: Paths,
        schema: pa.Schema,
        batch_size: int,
        *,
        record_type: str = "Example",
        compression: str | None = None,
        mode: str = "failfast",
        drop_remainder: bool = False,
    ) -> tf.data.Dataset:
        """This node's share of TFRecords as a ``tf.data.Dataset`` of whole batches, each a dict of
        tensors by column. Shares need not have the same number of rows.

        No Python runs while it is read. A fixed-size list is a matrix, a list of any length a
        ``tf.RaggedTensor``, a list of such lists (a FeatureList of a SequenceExample) one of two
        ragged dimensions, bytes and strings are ``tf.string``. Every pass reads the files anew.

        Args:
            pattern: files as in :meth:`files`.
            schema: a ``pyarrow.Schema`` of single values, lists, lists of lists and fixed-size
                lists. A value that is missing in a record is an error, as a tensor has no null; a
                missing list is empty.
            batch_size: rows of a batch.
            record_type: "Example" or "SequenceExample".
            compression: "none", "gzip", "zlib"; None takes it from the files' names.
            mode: how bad records are handled, "failfast" or "dropmalformed".
            drop_remainder: leave out the last batch if it is not full.
        """
        from tfos.node import files as node_files

        return node_files.tfrecords(
            self.files(pattern),
            schema,
            batch_size,
            record_type=record_type,
            compression=compression,
            mode=mode,
            drop_remainder=drop_remainder,
        )

    def distribute(self, optimizer: Any, compression: str | None = None) -> Any:
        """Has a Keras ``optimizer`` train one model on all training nodes, and returns it:
        ``model.compile(ctx.distribute(keras.optimizers.Adam()), ...)``, and ``fit`` as on one
        machine. ``fit`` begins with the chief's weights and optimizer. Gradients are averaged over
        the nodes that have a batch, by its rows. A node whose rows are used up goes along with the
        others until the epoch has ended on all. One whose program has ended leaves them to go on.
        ``compression="bfloat16"`` sends them in half the bytes between hosts. See
        :mod:`tfos.keras.optimizer` and, for your own loops, :mod:`tfos.collective`."""
        from tfos.keras.optimizer import distribute  # TensorFlow is imported only where it is used.

        return distribute(optimizer, compression)

    def chief_only(self, callbacks: Any) -> list[Any]:
        """A callback, or a list of them, for the chief alone; an empty list on other nodes:
        ``fit(callbacks=[..., *ctx.chief_only(keras.callbacks.ModelCheckpoint(path))])``. For what
        writes files, and for ``BackupAndRestore``: what that restores on the chief the others get
        as training begins."""
        if not self.is_chief:
            return []
        return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]

    @property
    def leaving(self) -> dict[int, str]:
        """The nodes that will be lost, because Spark is about to take their executors away: why, by
        node id. Empty as long as all stay. All nodes hear of it, so that the chief can save in
        time. Cheap: look at it after each step."""
        return self._reporter.leaving()

    def on_leaving(self, save: Callable[[Any], Any]) -> Any:
        """A callback of Keras 3 or legacy Keras that calls ``save(model)`` after the batch in which
        this node hears that a node will be lost (see ``leaving``), once for each such node:
        ``fit(callbacks=ctx.chief_only(ctx.on_leaving(lambda model: model.save(path))))``."""
        from tfos.keras.leaving import SaveBeforeLoss

        return SaveBeforeLoss(save, lambda: self.leaving)

    def checkpoint(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        every_seconds: float | None = None,
        keep: int = 3,
        sharded: bool = False,
    ) -> Any:
        """A callback of Keras 3, the last one and on all nodes, that keeps checkpoints of a ``fit``
        and goes on from the last (docs/checkpoints.md). One node writes, or with ``sharded`` each a
        part, after each epoch and every ``every_seconds``. ``directory`` is for this ``fit`` alone;
        else it is that of ``tfos.run(..., resume=...)``. Drivers: :func:`tfos.last_checkpoint`."""
        from tfos.keras.checkpoint.saving import Checkpoints

        node = self._bootstrap["node"]
        resume = node.get("resume") or {}
        if directory is None and not resume:
            raise BadInputError(
                "ctx.checkpoint needs a directory, or a cluster of tfos.run(..., resume=directory)"
            )
        path = resume["directory"] if directory is None else self.absolute_path(directory)
        if path != resume.get("directory", path):
            given = f"{path}, and tfos.run(resume=...) {resume['directory']}"
            raise BadInputError(f"ctx.checkpoint is given {given}: leave one of them out")
        return Checkpoints(
            path,
            every_seconds,
            keep,
            sharded=sharded,
            nodes=self.size,
            reads_past=node.get("input_mode") != "spark",
            report=self.report if self._reporter else None,
            epochs_done=resume.get("epochs"),
            steps_done=resume.get("step"),
            feed=self._feed_source,
        )

    def average_metrics(self, batch_norm: bool = False) -> Any:
        """A callback of Keras 3 or legacy Keras that averages metrics over all training nodes. At
        the end of an epoch they become those of the rows of all nodes, for the callbacks behind it
        and for the history. With ``batch_norm`` the moving statistics of
        BatchNormalization are averaged too; nodes count alike there."""
        from tfos.keras.metrics import AverageMetrics

        return AverageMetrics(batch_norm)

    def summaries(
        self, directory: str | os.PathLike[str] | None = None, *, every_seconds: float = 10.0
    ) -> Any:
        """A callback of Keras 3 or legacy Keras that writes into TensorBoard what this node does:
        rows and steps a second, which side waits, and the share of the all-reduce. Use it on all
        nodes: each writes into a folder of its own below ``directory`` (by default ``log_dir``),
        as ``worker_1`` beside the ``train`` of Keras's own callback. As there, a path without a
        scheme is of the node's host. See docs/metrics.md."""
        from tfos.keras.summaries import Summaries

        above = self.log_dir if directory is None else directory
        if above is None:
            raise BadInputError("summaries() needs a directory, or a cluster with log_dir=...")
        # As TensorFlow, Keras's callback and TensorBoard read it: not on Spark's file system.
        own = os.path.join(above, f"{self.job_name}_{self.task_index}")
        of_feed = dict if self._feed_source is None else self._feed_source.counters
        return Summaries(own, lambda: of_feed() | collectives.counters(), every_seconds)

    def parameter_server(
        self,
        model_or_variables: Any,
        combiner: str = "delta",
        *,
        sync_interval: int = 10,
        staleness: int | None = None,
        optimizer: Any = None,
        overlap: bool = True,
        restore: str | os.PathLike[str] | None = None,
        copy_interval: float = 30.0,
        connect_timeout: float = 600.0,
    ) -> ParameterServer:
        """The cluster's parameter servers (``tfos.run(..., parameter_servers=N)``), for training in
        which nodes do not wait for each other: use it in a ``with`` block and call ``step()`` after
        each step, or give ``fit`` its ``callback()``.

        Args:
            model_or_variables: a built Keras model, or a list of variables or NumPy arrays: the
                same ones, in the same order, on all nodes. The first values are those of the chief.
            combiner: what the servers make of their values and a node's: ``"delta"`` adds what the
                node has changed; ``"mean"``, with n nodes, is ``((n-1) * server + new) / n``;
                ``"update-mean"`` is ``(server + new) / 2``, and the first ``new``. Neither takes
                whole numbers.
            sync_interval: steps between two exchanges with the servers.
            staleness: how many exchanges a node may be ahead of the slowest one; None: any number.
            optimizer: instead of a combiner, ``keras.optimizers.SGD`` or ``Adam`` to run on the
                servers, which then get gradients.
            overlap: exchange in the background; a node sees what the others did an exchange later.
            restore: a file of ``ParameterServer.save``, from which the chief starts the servers.
            copy_interval: with ``optimizer``, seconds between two copies of its state that each
                node keeps. If a server is lost, the other one goes on from the newest. 0: with each
                exchange.
            connect_timeout: seconds for the chief to give the servers their first values.
        """
        from tfos import parameter_server  # NumPy and TensorFlow are imported only where used.
        from tfos.node import parameter_servers

        return parameter_server.ParameterServer(
            model_or_variables,
            *parameter_servers.of(self, self._bootstrap),
            combiner=combiner,
            sync_interval=sync_interval,
            staleness=staleness,
            optimizer=optimizer,
            overlap=overlap,
            restore=restore,
            copy_interval=copy_interval,
            resolve=self.absolute_path,
            connect_timeout=connect_timeout,
            link=parameter_servers.link_of(self._reporter, self._bootstrap),
        )

    def _fed(self) -> FeedSource:
        if self._feed_source is None:
            raise BadInputError(
                f"{self.job_name}:{self.task_index} is not fed by Spark: "
                "only nodes that train in input mode 'spark' have a feed"
            )
        return self._feed_source

    def report(self, **metrics: float | int | str) -> None:
        """Publishes metrics of the program (``step``, ``loss``, ...) to the driver, its progress
        line and ``/metrics``. Cheap: it keeps the latest values, which a heartbeat carries."""
        self._reporter.report(metrics)

    def doing(self, words: str) -> AbstractContextManager[None]:
        """Says what the program does besides steps, for as long as a block takes:
        ``with ctx.doing("exporting the model"): model.export(path)``. The driver's progress, the
        page and ``tfos top`` show it, and don't call the node stuck meanwhile. Only the
        first 256 bytes of the words are shown."""
        return self._reporter.doing(words)

    def absolute_path(self, path: str | os.PathLike[str]) -> str:
        """``path`` as a URI, completed from the default file system and the working directory."""
        return paths.resolve(self.default_fs, self.working_dir, path)
