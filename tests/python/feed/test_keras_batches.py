"""How Keras reads ``ctx.batches``: each batch once."""

from __future__ import annotations

import pytest

from tfos.feed import keras_batches


class Epochs:
    """Numbers instead of batches: as many in each pass as are asked for."""

    def __init__(self, in_each):
        self._in_each = in_each
        self._next = 0

    def __iter__(self):
        last = self._next + self._in_each
        while self._next < last:
            self._next += 1
            yield self._next


@pytest.fixture
def adapter_of():
    from keras.src.trainers import data_adapters

    keras_batches.prepare(Epochs)
    return lambda in_each: data_adapters.get_data_adapter(Epochs(in_each))


@pytest.mark.parametrize("in_each", [1, 2])
def test_no_batch_is_read_again(adapter_of, in_each):
    adapter = adapter_of(in_each)
    read = [number for _ in range(3) for (number,) in adapter.generator()]
    assert read == list(range(1, 3 * in_each + 1))


def test_a_batch_that_keras_has_looked_at_is_read_then(adapter_of):
    adapter = adapter_of(3)
    assert next(adapter.generator()) == (1,)
    assert next(adapter.generator()) == (1,)
