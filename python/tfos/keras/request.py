"""How nodes that train in step agree, in a step, on what they do after it. Each has a clock of its
own, and is busy at times of its own; and one whose rows are used up takes part in the steps of the
others, and hears of nothing else.
"""

from __future__ import annotations

import tensorflow as tf

from tfos import collective


class Request:
    """After a step that any node has asked in, and none has prevented, all know that at once.

    Owner and lifetime: what joins an optimizer with those of other nodes, of which all have one.
    Threads: the one that trains.
    """

    def __init__(self) -> None:
        # Where a step runs in a graph, it reads and writes them.
        with tf.device("CPU:0"):
            self._said = tf.Variable([0, 0], dtype=tf.int32, trainable=False)
            self._is_due = tf.Variable(False, trainable=False)
        self._last = (False, False)

    def say(self, *, asks: bool, prevents: bool) -> None:
        """What this node says in the steps from now on."""
        if (asks, prevents) != self._last:
            self._last = (asks, prevents)
            self._said.assign([int(asks), int(prevents)])

    def take(self) -> bool:
        """Whether something is to be done after the step that has just ended: on all nodes, which
        have all made it with rows. Once for each such step."""
        is_due = bool(self._is_due.numpy())
        if is_due:
            self._is_due.assign(False)
        return is_due

    def exchange(self, *, has_rows: bool) -> None:
        """A part of a step, in a graph or not. All nodes call it."""
        # After the step that a node without rows makes, it is not where the others are.
        said = self._said if has_rows else tf.constant([0, 1], tf.int32)
        asked, prevented = tf.unstack(
            collective.all_reduce(
                tf.convert_to_tensor(said), "sum", name="whether a checkpoint is due"
            )
        )
        self._is_due.assign((asked > 0) & (prevented == 0))
