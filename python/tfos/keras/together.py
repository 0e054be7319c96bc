"""What a Keras optimizer of ``ctx.distribute`` does with the other nodes.

Four things, all of them collective: it begins with one node's values, averages gradients, lets
nodes in that join later, and ends an epoch. A node whose rows are used up goes along with the steps
of the others, without rows, until they have ended too, and then takes the values of those that have
made all steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras.request import Request
from tfos.keras.sharing import WEIGHTS, Given, share
from tfos.keras.variables import whole_value

_GRADIENTS = "gradients"
#: What a batch weighs at least that is part of a step: no weight at all is for nodes without rows.
_LEAST_WEIGHT = 1e-20


class Together:
    """Owner: an optimizer. Threads: one at a time, as the optimizer. Errors: those of
    :mod:`tfos.collective`."""

    def __init__(self, compression: str | None) -> None:
        self._compression = compression
        self._shared = False
        #: What the gradients of a step are, as a structure of specs; None before the first step.
        self._like: list[Any] | None = None
        self._without_rows: Any = None
        self._weight: Any = None
        self._may_be_weightless = False
        #: Steps run without a graph, so nothing says which gradients are IndexedSlices to a node
        #: that had no batch yet: all are reduced as tensors.
        self.is_eager = False
        #: What nodes agree on in each step; None as long as nobody wants that.
        self.request: Request | None = None
        #: Asked at the end of an epoch: whether this node had no batch, and none will come.
        self.node_is_over: Callable[[], bool] = lambda: False
        #: Whether that was so on all nodes at the end of the last epoch.
        self.all_are_over = False
        #: Called after each step that others made, and not this node: how many it was in the epoch.
        self.after_missed_step: Callable[[int], None] = lambda missed: None

    def share_at_first_step(self) -> None:
        """For models that have no weights before their first step."""
        self._shared = False

    def begin_shared(self) -> None:
        """The variables have the same values on all nodes: the first step gives none."""
        self._shared = True

    def share(
        self,
        variables: Iterable[Any],
        epoch: int = 0,
        steps: int = 0,
        rest: bytes = b"",
        *,
        at_first_step: bool = False,
        joining: bool = False,
        keeps: Iterable[Any] = (),
    ) -> Given:
        """As :func:`tfos.keras.sharing.share`; returns the giver's ``epoch``, how many ``steps`` of
        it that has made, and the ``rest`` of what it tells. ``keeps``: those of the variables that
        become each node's own once they have trained together."""
        own = Given(epoch, steps, rest)
        given = share(
            variables,
            own,
            at_first_step=at_first_step,
            joining=joining,
            keeps=keeps if self._shared else (),
        )
        self._shared = True
        return given

    def make_request(self) -> Request:
        """From now on each step has it: graphs that were made before must be made anew. All nodes
        call it before the same step, also those that join later."""
        self.request = Request()
        self._like, self._without_rows = None, None
        return self.request

    def weigh(self, weight: Any, *, may_be_zero: bool = False) -> None:
        """What the gradients that come next weigh; None: as much as those of all others."""
        self._weight, self._may_be_weightless = weight, may_be_zero

    def mean(
        self, gradients: Sequence[Any], variables: Iterable[Any], *, alike: bool = False
    ) -> list[Any]:
        """The means over all nodes; with ``alike`` all nodes weigh as much. ``variables``: what the
        first step begins by sharing, if that was not done before."""
        weight, may_be_zero = self._weight, self._may_be_weightless
        self.weigh(None)
        if not alike and not _is_in_reach(weight):
            warnings.warn(
                "compute_loss was called in a tf.function or loop within the one that applies the "
                "gradients: this node's batches weigh as much as those of the others, whatever "
                "their rows",
                stacklevel=2,
            )
            weight = None
        if alike or weight is None:
            weight, may_be_zero = 1.0, False
        if may_be_zero:
            gradients = [_kept(gradient, weight > 0) for gradient in gradients]
        # Before the specs are made: to the others, a step without rows must look the same.
        gradients = collective.dense_if_elastic(list(gradients))
        if self.is_eager:
            gradients = [
                tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each
                for each in gradients
            ]
        weight = tf.maximum(tf.cast(weight, tf.float64), _LEAST_WEIGHT)
        like = [_spec_of(gradient) for gradient in gradients if gradient is not None]
        if like != self._like:
            self._like, self._without_rows = like, None
        # Keras runs a step to find out that there is no batch: that must not reach the others.
        needed = [
            getattr(gradient, "values", gradient) for gradient in gradients if gradient is not None
        ]
        if not self._shared and not self._share_now(variables):
            needed = [_never_run()]
        with tf.control_dependencies(needed):
            means, _ = self._reduce(gradients, weight, trains=True)
        return means

    def end_epoch(self, iterations: Any, variables: Iterable[Any], trained: Iterable[Any]) -> None:
        """Returns when no node has rows left in this epoch; then all have the same ``variables``
        and have made as many ``iterations``, which count those that only add gradients up, too.
        ``trained``: the variables that have gradients."""
        if self._like is None:  # Without a single batch nothing says which gradients have rows.
            self._like = [tf.TensorSpec(variable.shape, variable.dtype) for variable in trained]
        if self._without_rows is None:
            self._without_rows = self._make_step_without_rows(self._like)
        missed = 0
        while True:
            while self._without_rows():
                missed += 1
                self.after_missed_step(missed)
            if self._has_ended(missed, iterations, variables):
                return
            # A node was lost that the others were to get the values of.

    def _has_ended(self, missed: int, iterations: Any, variables: Iterable[Any]) -> bool:
        """``missed``: steps of the epoch that others made, and this node did not."""
        # Iterations may differ alone: Keras counts, or not, the step that finds no batch.
        nodes = collective.all_gather(
            tf.constant(
                [[missed, collective.rank(), whole_value(iterations), self.node_is_over()]],
                tf.int64,
            ),
            name="the end of an epoch",
        ).numpy()
        self.all_are_over = bool(nodes[:, 3].all())
        # Of those that missed none, the one with most: steps that add gradients up are not met in.
        last = min(nodes, key=lambda row: (row[0], -row[2]))
        if last[0] > 0 and last[1] == collective.rank():
            warnings.warn(
                "a lost node was the only one with rows left in this epoch. Its last steps are "
                f"gone with it: {last[0]}",
                stacklevel=2,
            )
        if (nodes[:, [0, 2]] != nodes[0, [0, 2]]).any():
            try:
                collective.broadcast_variables(variables, int(last[1]), name=WEIGHTS)
            except tf.errors.AbortedError:
                return False
        return True

    def _reduce(
        self, gradients: Sequence[Any], weight: Any, *, trains: bool
    ) -> tuple[list[Any], Any]:
        """The means, and what the nodes weigh that train: 0 if all have ended."""
        # Nothing of that goes along as one more gradient: what compression does with each depends
        # on all of them.
        means, weights = collective.mean_and_weights(
            list(gradients), weight, compression=self._compression, name=_GRADIENTS
        )
        if self.request is not None:
            with tf.control_dependencies([weights]):
                self.request.exchange(has_rows=trains)
        return means, weights

    def _make_step_without_rows(self, like: list[Any]) -> Any:
        """A function that takes part in a step of the others and says whether there was one."""
        nothing = tf.nest.map_structure(_zeros, like)

        # With the shapes that a step's graph knows, as nodes compare those.
        @tf.function(input_signature=[like])
        def step(gradients: list[Any]) -> tf.Tensor:
            parts = [
                tf.IndexedSlices(*each) if isinstance(each, tuple) else each for each in gradients
            ]
            return self._reduce(parts, 0.0, trains=False)[1] > 0

        return lambda: bool(step(nothing))

    def _share_now(self, variables: Iterable[Any]) -> bool:
        # A tf.function that makes variables, as that of a model without an input shape, is traced
        # once without values and, when they are there, again.
        with tf.init_scope():
            variables = list(variables)
            ready = all(map(_has_value, variables))
            if ready:
                self.share(variables, at_first_step=True)
        return ready


def _is_in_reach(value: Any) -> bool:
    """Whether the graph that is being made can have ``value``: of a graph of its own, or eager."""
    if not tf.is_symbolic_tensor(value):
        return True
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None and graph is not value.graph:
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


def _kept(gradient: Any, counts: tf.Tensor) -> Any:
    """Zeros for a batch that doesn't count: its gradients may be no numbers."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            _kept(gradient.values, counts), gradient.indices, gradient.dense_shape
        )
    return tf.math.multiply_no_nan(gradient, tf.cast(counts, gradient.dtype))


def _spec_of(gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return (
            tf.TensorSpec([None, *gradient.values.shape[1:]], gradient.values.dtype),
            tf.TensorSpec([None], gradient.indices.dtype),
        )
    return tf.TensorSpec(gradient.shape, gradient.dtype)


def _zeros(spec: tf.TensorSpec) -> tf.Tensor:
    rows, *row = spec.shape.as_list() or [1]
    if None in row:
        raise BadInputError(
            f"a gradient has the shape {spec.shape}: for nodes without rows to go "
            "along with those that have some, it must be known"
        )
    return tf.zeros([] if spec.shape.rank == 0 else [rows or 0, *row], spec.dtype)


def _has_value(variable: Any) -> bool:
    # Keras 3 has variables of its own around TensorFlow's.
    return bool(
        (variable if isinstance(variable, tf.Variable) else variable.value).is_initialized()
    )


def _never_run() -> tf.Operation:
    return tf.debugging.Assert(
        False,
        [
            "the model's weights got no values before the first step, so they can't become "
            "those of the "
            "chief: give the model an input shape, or call it once, before it is trained"
        ],
    )
