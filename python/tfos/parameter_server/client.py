"""Parameter servers, as a worker uses them: what is behind ``ctx.parameter_server``.

    with ctx.parameter_server([w, b], sync_interval=10) as server:
        for x, y in batches:
            train_step(x, y)
            server.step()

The native client pushes and pulls in threads of its own; here is what is particular to NumPy,
TensorFlow and Keras: reading variables, assigning them, and counting steps.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfos.base.setting import MOST_SECONDS
from tfos.errors import BadInputError, NodeLostError
from tfos.files import access as file_access
from tfos.parameter_server.connection import (
    CONNECT_TIMEOUT,
    COPY_INTERVAL,
    Server,
    Worker,
    as_bytes,
    connect,
)
from tfos.parameter_server.rules import make_rule, on_the_server

logger = logging.getLogger(__name__)


def _dtype_in_files(dtype: np.dtype) -> np.dtype:
    """What a dtype is in NumPy's files, which have no bfloat16 but bytes."""
    return np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype))


def _is_model(model_or_variables: Any) -> bool:
    return all(hasattr(model_or_variables, name) for name in ("weights", "trainable_weights"))


def _variables_of(model_or_variables: Any, trainable: bool) -> list[Any]:
    if _is_model(model_or_variables):
        model = model_or_variables
        if not model.weights:
            raise BadInputError("the model has no weights yet: build it, or give it an Input layer")
        weights = model.trainable_weights if trainable else model.weights
        # States of random seeds and the like stay each node's own.
        return [weight for weight in weights if "float" in str(weight.dtype)]
    variables = list(model_or_variables)
    for variable in variables:
        if isinstance(variable, np.ndarray):
            if not (variable.flags.c_contiguous and variable.flags.writeable):
                raise BadInputError("an array must be in one piece and writable")
            if not variable.dtype.isnative:
                raise BadInputError(
                    f"an array of {variable.dtype.str} has the bytes of its numbers the other way "
                    'round: pass array.astype(array.dtype.newbyteorder("="))'
                )
        elif not hasattr(variable, "assign"):
            raise BadInputError(
                f"{type(variable).__name__} is neither a variable nor an array: parameter servers "
                "take a Keras model, or a list of variables or NumPy arrays"
            )
    return variables


def _is_statistic(variable: Any) -> bool:
    """Whether a variable is none that training adds steps to, such as a moving mean of
    BatchNorm."""
    return not getattr(variable, "trainable", True) and "float" in str(variable.dtype)


def _value(variable: Any) -> np.ndarray:
    """What a variable or tensor holds, without a copy where TensorFlow lets it be seen."""
    if isinstance(variable, np.ndarray):
        return variable
    import tensorflow as tf

    return np.asarray(tf.convert_to_tensor(variable))


class ParameterServer:
    """The parameter servers of a cluster, for the variables of one worker.

    Owner and lifetime: the program; ``with`` (or a fit with its ``callback``) connects and closes.
    Threads: one at a time. Errors: :class:`tfos.errors.NodeLostError` naming a server that is gone
    and does not come again; :class:`tfos.errors.BadInputError` where workers want different things.
    Nothing can be done with the servers any more then. Calls wait for a server that comes again.
    """

    def __init__(
        self,
        model_or_variables: Any,
        servers: Sequence[Server],
        worker: Worker,
        key: str,
        *,
        combiner: str = "delta",
        sync_interval: int = 10,
        staleness: int | None = None,
        optimizer: Any = None,
        overlap: bool = True,
        restore: str | os.PathLike[str] | None = None,
        copy_interval: float = COPY_INTERVAL,
        resolve: Callable[[str | os.PathLike[str]], str] = str,
        connect_timeout: float = CONNECT_TIMEOUT,
        link: Any = None,
    ):
        if sync_interval < 1:
            raise BadInputError(f"sync_interval={sync_interval} must be at least 1")
        if staleness is not None and staleness < 0:
            raise BadInputError(f"staleness={staleness} can't be negative")
        if not 0 <= copy_interval <= MOST_SECONDS:
            raise BadInputError(
                f"copy_interval={copy_interval!r}: seconds, from 0 to {MOST_SECONDS:g}"
            )
        self._rule, self._pushed = make_rule(combiner, optimizer, worker.workers)
        self._optimizer = optimizer
        self._variables = _variables_of(model_or_variables, self._pushed == "gradients")
        self._model = model_or_variables if _is_model(model_or_variables) else None
        self._averaged = self._averaged_now()
        self._servers = servers
        self._worker = worker
        self._key = key
        self._sync_interval = sync_interval
        self._staleness = staleness
        self._overlap = overlap
        self._restore = restore
        self._resolve = resolve
        self._copy_interval = copy_interval
        self._connect_timeout = connect_timeout
        #: The node's native link, where lost servers come again.
        self._link = link
        self._version = 0  # that the servers had when this was closed
        self._client: Any = None
        self._is_of_fit = False  # A fit has connected it, and closes it.
        self._steps = 0  # since the last exchange
        self._gradients: list[np.ndarray] | None = None
        self._summed = 0  # how many gradients of batches are in _gradients
        self._keeper: Any = None

    def open(self) -> None:
        """Connects, and gives the variables the servers' values. The chief gives the servers theirs
        first, once; the others wait for that."""
        if self._client is not None:
            return
        self._check_unchanged()
        arrays = [_value(variable) for variable in self._variables]
        client = self._connect(arrays)
        while self._worker.starts and not client.started:
            try:
                self._start(client, arrays)
            except NodeLostError as error:
                if self._link is None:
                    raise
                logger.warning("the servers get their first values again: %s", error)
                client = self._connect(arrays)
            else:
                self._restore = None
        if self._restore is not None and self._worker.starts:
            logger.warning(
                "restore=%s was ignored: the servers have values already, and training "
                "goes on with those",
                self._restore,
            )
        self._restore = None  # Opened again, it goes on.
        self._client = client
        self._steps = 0
        self._gradients = None
        self.pull()

    def _connect(self, arrays: list[np.ndarray]) -> Any:
        return connect(
            self._servers,
            arrays,
            self._rule,
            self._worker,
            self._key,
            self._staleness,
            self._connect_timeout,
            self._averaged,
            link=self._link,
            copy_interval=self._copy_interval,
        )

    def close(self) -> None:
        """Leaves the servers: nobody waits for this worker any more."""
        if self._client is not None:
            self._version = self._client.version
        self._client = None
        self._is_of_fit = False

    def __enter__(self) -> ParameterServer:
        self.open()
        self._is_of_fit = False
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self.close()

    @property
    def version(self) -> int:
        """How many pushes the servers had combined when this worker last heard of them."""
        return self._connected().version

    @property
    def local_servers(self) -> int:
        """How many of the servers share memory with this process."""
        return self._connected().local_servers

    def step(self, gradients: Sequence[Any] | None = None) -> None:
        """Counts a step of training; after every ``sync_interval`` of them exchanges with the
        servers. With an optimizer on the servers the step's ``gradients`` are to be given, and
        their mean is pushed."""
        if self._pushed == "gradients":
            self._add(*self._gradients_of_step(gradients))
        self._steps += 1
        if self._steps >= self._sync_interval:
            self.sync()

    def sync(self) -> None:
        """Pushes now, and pulls. With ``overlap`` both go on while the program does: the variables
        get what the exchange before this one has brought, and keep what was done since."""
        self._exchange(self._overlap)

    def push(self) -> None:
        """Pushes, and returns when the servers have combined it. The variables stay as they are."""
        self._connected().run(self._pushed, False, False, self._outgoing())
        self._steps = 0

    def pull(self) -> None:
        """Gives the variables the servers' values; what was not pushed is lost."""
        self._connected().run(None, True, False, [])
        self._assign()

    def finish(self) -> None:
        """Pushes what was not pushed yet and gives the variables the servers' values."""
        if self._steps:
            self._exchange(False)
        else:
            self.pull()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the servers' state (values, the state of their optimizer, the version) to the file
        ``path``, from which a later cluster, with any number of servers, goes on:
        ``ctx.parameter_server(..., restore=path)``. One worker does."""
        client = self._connected()
        arrays = [_value(variable) for variable in self._variables]
        state: dict[str, np.ndarray] = {}
        for part in range(1 + self._rule.slots):
            rooms = [np.empty(array.shape, array.dtype) for array in arrays]
            client.read(part, [as_bytes(room) for room in rooms])
            # After what was under way, which the first read waits for.
            state.setdefault("version", np.array(client.version, np.int64))
            state |= {f"part {part} of {place}": room for place, room in enumerate(rooms)}
        access, target = file_access.access_for(self._resolve(path))
        with access.create(target + ".part") as file:
            np.savez(file, **state)
        access.rename(target + ".part", target)

    def callback(self) -> Any:
        """For ``model.fit(callbacks=[...])``: connects when training begins, counts a step for each
        batch (for each execution of ``steps_per_execution`` batches), and finishes at its end. It
        closes what it has connected: within ``with``, the servers stay connected."""
        from tfos.keras.callback import Callback  # It imports Keras.

        server = self

        class ParameterServerCallback(Callback):
            def on_train_begin(self, logs: Any = None) -> None:
                if hasattr(self.model, "jax_state_sync"):
                    raise BadInputError(
                        "with JAX, Keras takes the values out of a model's variables while it "
                        "trains, so parameter servers can't keep them. Use Keras on TensorFlow, or "
                        "write the loop and give ctx.parameter_server NumPy arrays"
                    )
                if server._keeper is not None:
                    server._keeper.check_callbacks(self.companions)
                if server._client is None:
                    server.open()
                    server._is_of_fit = True

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                server.step()

            def on_train_end(self, logs: Any = None) -> None:
                server.finish()
                if server._is_of_fit:
                    server.close()

        return ParameterServerCallback()

    def keras_optimizer(self) -> Any:
        """What to compile a model with whose optimizer is on the servers: it collects the gradients
        that ``callback`` pushes. A saved model has the one that the servers have, without its
        state. The learning rate can't be changed."""
        if self._pushed != "gradients":
            raise BadInputError("there is no optimizer on the servers: compile with any of Keras'")
        if self._keeper is None:
            from tfos.parameter_server.keeper import make_keeper  # It imports Keras.

            self._keeper = make_keeper(on_the_server(self._optimizer))
        return self._keeper

    # -- what it does it with

    def _averaged_now(self) -> list[bool]:
        # All nodes' statistics move towards the same: the sum of their changes would go past it.
        return [
            self._pushed == "change" and _is_statistic(variable) for variable in self._variables
        ]

    def _check_unchanged(self) -> None:
        if self._model is None:
            variables = self._variables
        else:
            variables = _variables_of(self._model, self._pushed == "gradients")
        if (
            list(map(id, variables)) != list(map(id, self._variables))
            or self._averaged_now() != self._averaged
        ):
            raise BadInputError(
                "what is trainable has changed since ctx.parameter_server() was called. The "
                "servers keep one set of variables until the cluster ends: freeze and unfreeze "
                "layers before that call"
            )

    def _connected(self) -> Any:
        if self._client is None:
            raise BadInputError("not connected to the parameter servers: use `with`, or open()")
        return self._client

    def _start(self, client: Any, arrays: list[np.ndarray]) -> None:
        # Where all had left the servers, and one was lost then, this worker has the latest values.
        version = self._version
        parts = [arrays] + [[np.zeros_like(array) for array in arrays]] * self._rule.slots
        if self._restore is not None:
            version, parts = self._read_state(self._restore, arrays)
        for part, values in enumerate(parts):
            client.write(part, [as_bytes(value) for value in values])
        client.start_at(version)

    def _read_state(
        self, restored: str | os.PathLike[str], arrays: list[np.ndarray]
    ) -> tuple[int, list[list[np.ndarray]]]:
        path = self._resolve(restored)
        access, source = file_access.access_for(path)
        with access.open(source) as file:
            state = np.load(io.BytesIO(file.read()))
        parts = 1 + self._rule.slots
        if len(state.files) != 1 + parts * len(arrays):
            raise BadInputError(f"{path} is not of these variables with this combiner or optimizer")
        found = [
            [state[f"part {part} of {place}"] for place in range(len(arrays))]
            for part in range(parts)
        ]
        for part in found:
            for place, (value, array) in enumerate(zip(part, arrays, strict=True)):
                if value.shape != array.shape or value.dtype != _dtype_in_files(array.dtype):
                    raise BadInputError(
                        f"{path}: variable {place} is {value.dtype}{value.shape} "
                        f"there, and here {array.dtype}{array.shape}"
                    )
        return int(state["version"]), found

    def _exchange(self, overlapped: bool) -> None:
        self._connected().run(self._pushed, True, overlapped, self._outgoing())
        self._steps = 0
        self._assign()

    def _outgoing(self) -> list[np.ndarray]:
        if self._pushed != "gradients":
            return [as_bytes(_value(variable)) for variable in self._variables]
        gradients, self._gradients = self._gradients, None
        if gradients is None:
            raise BadInputError("there are no gradients to push: give them to step()")
        # In the gradients' types: with a plain number, NumPy 1 makes float64 of a single value.
        return [
            as_bytes(gradient / np.asarray(max(self._summed, 1), gradient.dtype))
            for gradient in gradients
        ]

    def _gradients_of_step(self, gradients: Sequence[Any] | None) -> tuple[list[np.ndarray], int]:
        """The sum of gradients since the last step, and of how many batches they are: in ``fit``
        with ``steps_per_execution`` more than one."""
        if gradients is None and self._keeper is not None and self._keeper.built:
            return self._keeper.take()
        if gradients is None:
            raise BadInputError(
                "the servers' optimizer needs gradients: step(gradients), or for fit "
                "a model that was compiled with keras_optimizer()"
            )
        values = [
            np.zeros_like(_value(variable)) if gradient is None else _value(gradient)
            for gradient, variable in zip(gradients, self._variables, strict=True)
        ]
        return [
            np.asarray(value, _value(variable).dtype)
            for value, variable in zip(values, self._variables, strict=True)
        ], 1

    def _add(self, gradients: list[np.ndarray], count: int) -> None:
        if self._gradients is None:
            self._gradients = [np.array(gradient) for gradient in gradients]
            self._summed = count
            return
        self._summed += count
        for total, gradient in zip(self._gradients, gradients, strict=True):
            total += gradient

    def _assign(self) -> None:
        rooms = []
        for variable in self._variables:
            value = _value(variable)
            # Fresh memory for TensorFlow, which may keep it instead of copying.
            rooms.append(value if value is variable else np.empty(value.shape, value.dtype))
        self._client.copy_values([as_bytes(room) for room in rooms])
        for variable, room in zip(self._variables, rooms, strict=True):
            if room is not variable:
                variable.assign(room)
