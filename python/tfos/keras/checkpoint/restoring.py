"""How a ``fit`` goes on from the newest checkpoint when it begins.

One node reads: the first of those that train. It gives the others what it has read. So a directory
that only one node reaches is enough, unless nodes may be lost, and HDFS is not read once for each
node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras import callback_state
from tfos.keras.checkpoint.directory import Saved, unusable
from tfos.keras.checkpoint.model import compare, described, optimizer_of, seeds_of, variables_of
from tfos.keras.checkpoint.parts import PartedDirectory
from tfos.keras.joining import state_of


class Restoring:
    """Brings a model to where the newest checkpoint has it.

    Owner and lifetime: the callback that writes checkpoints, for one ``fit``. Threads: Keras' own.
    Errors: :class:`BadInputError` for a checkpoint of another model, one that the driver does not
    go on from, and a directory that can't be used.

    Args:
        directory: where the checkpoints are.
        epochs_done: how many the driver has found there; None: it has not looked.
        steps_done: likewise, of the next epoch.
    """

    def __init__(self, directory: PartedDirectory, epochs_done: int | None, steps_done: int | None):
        self._directory = directory
        self._epochs_done = epochs_done
        self._steps_done = steps_done
        #: What was trained of the epoch that goes on, if this node has read it.
        self.trained: bytes | None = None

    def together(
        self, model: Any, companions: Any, meet: Callable[[], list[int]]
    ) -> tuple[int, int] | None:
        """What :meth:`alone` returned on the node that has read, on all nodes, which have its
        state then. All nodes call it. ``meet``: returns the ranks of those that train."""
        seeds = seeds_of(model)
        position: tuple[int, int] | None = None
        has_read = False
        while True:
            first = meet()[0]
            if collective.rank() == first and not has_read:
                position, has_read = self.alone(model, companions), True
            try:
                found = collective.broadcast(
                    [
                        tf.constant([position is not None, *(position or (0, 0))], tf.int64),
                        *map(tf.convert_to_tensor, seeds),
                    ],
                    first,
                    name="where training goes on",
                )
            except tf.errors.AbortedError:
                continue  # It was lost: the next one reads.
            there, epoch, step = found[0].numpy().tolist()
            if not there:
                return None
            # If that node is lost now, another one gives what it has not read: then once more.
            remembered = callback_state.state_of(companions) if has_read else {}
            given = model.optimizer._together.share(
                state_of(model),
                epoch if has_read else -1,
                rest=callback_state.encoded(remembered),
            )
            if given.epoch >= 0:
                break
        if not has_read:
            callback_state.adopt(companions, callback_state.decoded(given.rest))
            for seed, value in zip(seeds, found[1:], strict=True):
                # Nodes go on with random numbers of their own, from the same place.
                seed.assign(tf.stack([tf.convert_to_tensor(seed)[0], value[1]]))
        return epoch, step

    def alone(self, model: Any, companions: Any) -> tuple[int, int] | None:
        """The epoch, and how many steps of it were made, of the newest checkpoint, which this model
        has then; None if there is none."""
        directory = self._directory
        try:
            directory.try_to_write()
            saved = directory.newest()
            self._compare_with_driver(saved)
            if saved is None:
                return None
            variables = variables_of(model)
            compare(saved, [described(one) for one in variables], optimizer_of(model))
            for variable, kind, value in zip(
                variables, saved.variables, directory.values(saved), strict=True
            ):
                dtype = tf.as_dtype(kind.dtype).as_numpy_dtype
                variable.assign(value if value.dtype == dtype else value.view(dtype))
            callback_state.adopt(companions, directory.callbacks(saved))
            if self._steps_done is not None and (trained := directory.trained(saved)):
                self.trained = trained[1].tobytes()
        except OSError as error:
            raise unusable(directory.name, error) from error
        return saved.checkpoint.epoch, saved.checkpoint.step

    def _compare_with_driver(self, saved: Saved | None) -> None:
        """Raises :class:`BadInputError` where the driver does not feed what the model has left."""
        epochs, steps = (0, 0) if saved is None else saved.checkpoint[1:]
        here, there = f"{epochs} epochs", str(self._epochs_done)
        if self._epochs_done in (None, epochs):
            here, there = f"{here} and {steps} steps", f"{there} and {self._steps_done}"
            if self._steps_done in (None, steps):
                return
        raise BadInputError(
            f"resume: this node finds {here} that are done in {self._directory.name}, and the "
            f"driver found {there}. The hosts of the driver and of the nodes must share that "
            "directory. If they do, somebody else has written there meanwhile: another fit of this "
            "program, or a cluster that had not ended yet. Then run it again"
        )
