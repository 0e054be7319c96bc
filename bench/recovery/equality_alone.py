"""One machine repeats the steps that the nodes of equality.py have committed: plain Keras.

    python bench/recovery/equality_alone.py DIRECTORY --units 128 --loop fit

Twice, in the committed order:

- apart: it makes the gradients of each batch by itself, and adds them up in the order in which the
  nodes do. That is the same arithmetic, so all bits must be the same after each step.
- at once: all rows of a step are one batch of `train_on_batch`. Its sums have another order, so
  bits differ.

Prints a line of JSON, and exits with 1 if the weights or the state of the optimizer differ in a bit
from those of the nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

import equality_steps as steps
import numpy as np

#: What nodes of one host sum up in one go (src/collective/host/host_algorithms.cc): up to here each
#: of them all of it, above it each of them a share.
WHOLE_BYTES = 16 << 10
MOST_BYTES = 128 << 10
LINE_BYTES = 64


def sum_up(parts):
    """The sum of what the nodes have, in the order of the additions. float32 is not associative:
    with two nodes all orders are one, with three they are not."""
    size, count = parts[0].nbytes, len(parts)
    assert size <= MOST_BYTES, "it goes in several chunks, whose borders this does not know"
    if size <= WHOLE_BYTES:
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        return total
    lines = -(-size // LINE_BYTES)
    borders = [min(lines * place // count * LINE_BYTES, size) // 4 for place in range(count + 1)]
    total = np.empty_like(parts[0])
    for place, own in enumerate(parts):
        share = slice(borders[place], borders[place + 1])
        total[share] = own[share]
        for other, part in enumerate(parts):
            if other != place:
                total[share] += part[share]
    return total


def mean_of(gradients, rows, loop):
    """The mean of the nodes' gradients as tfos makes it: each is multiplied by its rows, and the
    sum by the inverse of all rows, all in float32. The rows travel with them, and `fit` adds a 1
    for each node that trains."""
    more = 2 if loop == "fit" else 1
    parts = [
        np.concatenate([*(g.ravel() * np.float32(n) for g in each), np.float32([n] * more)])
        for each, n in zip(gradients, rows, strict=True)
    ]
    total = sum_up(parts)
    total[:-1] *= np.float32(1 / float(total[-1]))
    means, begin = [], 0
    for gradient in gradients[0]:
        means.append(total[begin : begin + gradient.size].reshape(gradient.shape))
        begin += gradient.size
    return means


class Alone:
    """A model that is trained in one of the two ways."""

    def __init__(self, units, loop, at_once):
        import tensorflow as tf

        self.model = steps.model_of(units, 0)
        self.optimizer = steps.optimizer_of()
        self.optimizer.build(self.model.trainable_variables)
        self.model.compile(self.optimizer, "mse")
        self._loop, self._at_once = loop, at_once
        self._gradients_of = steps.gradients_function(self.model)
        trained = self.model.trainable_variables
        self._apply = tf.function(lambda means: self.optimizer.apply(means, trained))

    def step(self, batches):
        """``batches``: numbers by rank, 0 for none."""
        ranks = [rank for rank, number in enumerate(batches) if number]
        given = [steps.batch_of(batches[rank], rank) for rank in ranks]
        if self._at_once:
            x = {name: np.concatenate([x[name] for x, _ in given]) for name in given[0][0]}
            self.model.train_on_batch(x, np.concatenate([y for _, y in given]))
            return
        gradients = [[g.numpy() for g in self._gradients_of(x, y)] for x, y in given]
        self._apply(mean_of(gradients, [steps.ROWS[rank] for rank in ranks], self._loop))

    def variables(self):
        return steps.variables_of(self.model, self.optimizer)


def ulps_between(ours, theirs):
    """The most units in the last place between two arrays of float32."""
    places = [array.view(np.int32).astype(np.int64) for array in (ours, theirs)]
    ordered = [np.where(place < 0, np.int64(-(2**31)) - place, place) for place in places]
    return int(np.abs(ordered[0] - ordered[1]).max(initial=0))


def difference(ours, theirs):
    """{"bits": whether all are the same, "ulps": ..., "absolute": ...}, the largest of each."""
    floats = [
        (ours[name], theirs[name]) for name in theirs if theirs[name].dtype == np.dtype(np.float32)
    ]
    return {
        "bits": list(ours) == list(theirs)
        and all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs),
        "ulps": max(ulps_between(*both) for both in floats),
        "absolute": max(float(np.abs(a.astype(float) - b).max()) for a, b in floats),
    }


def weights_in(variables):
    """Without the state of the optimizer, and without the weight that counts batches."""
    return {
        name: value
        for name, value in variables.items()
        if name.partition(" ")[2].startswith("dense")
    }


def repeat(directory, units, loop):
    """What of the nodes' weights and state is other than on one machine."""
    done = steps.committed(directory)
    assert done[0]["step"] == 1, "the first steps are missing"
    apart, at_once = Alone(units, loop, at_once=False), Alone(units, loop, at_once=True)
    differs = []
    for line in done:
        apart.step(line["batches"])
        at_once.step(line["batches"])
        if steps.digest_of(apart.variables()) != line["digest"]:
            differs.append(line["step"])
    with np.load(next(iter(sorted(pathlib.Path(directory).glob("end-*.npz"))))) as file:
        end = {name: file[name] for name in file}
    return {
        "steps": len(done),
        "steps that differ": len(differs),
        "first that differs": differs[0] if differs else None,
        "apart": difference(apart.variables(), end),
        "at once": difference(weights_in(at_once.variables()), weights_in(end)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--units", type=int, required=True, help="of the model")
    parser.add_argument("--loop", choices=["fit", "state"], required=True, help="of the nodes")
    options = parser.parse_args()
    found = repeat(options.directory, options.units, options.loop)
    print(json.dumps(found))
    assert "tfos" not in sys.modules, "this is to be plain Keras"
    sys.exit(0 if found["apart"]["bits"] and not found["steps that differ"] else 1)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
