"""How Keras reads ``ctx.batches``: each batch once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.places import SCRIPTS
from tfos.feed import keras_batches


class Epochs:
    """Numbers instead of batches: as many in each pass as are asked for. A pass goes on where the
    one before was left."""

    def __init__(self, in_each):
        self._in_each = in_each
        self._next = 0

    def __iter__(self):
        while True:
            self._next += 1
            yield self._next
            if self._next % self._in_each == 0:
                return


@pytest.fixture
def adapter_of():
    from keras.src.trainers import data_adapters

    keras_batches.prepare(Epochs)
    return lambda in_each: data_adapters.get_data_adapter(Epochs(in_each))


@pytest.mark.parametrize("in_each", [1, 2])
def test_no_batch_is_read_again(adapter_of, in_each):
    adapter = adapter_of(in_each)
    adapter.on_epoch_end()  # Keras does so before it begins.
    read = [number for _ in range(3) for (number,) in adapter.generator()]
    assert read == list(range(1, 3 * in_each + 1))


def test_a_batch_that_keras_has_looked_at_is_read_then(adapter_of):
    adapter = adapter_of(3)
    assert next(adapter.generator()) == (1,)
    assert next(adapter.generator()) == (1,)


@pytest.mark.parametrize("is_new", [True, False])
def test_what_keras_has_looked_at_ahead_is_read_then(adapter_of, monkeypatch, is_new):
    from keras.src.trainers.epoch_iterator import EpochIterator

    if not is_new:
        monkeypatch.delattr(EpochIterator, "reset")
    adapter = adapter_of(5)
    look = adapter.generator()
    assert [next(look), next(look)] == [(1,), (2,)]
    if is_new:
        adapter.on_epoch_end()
    read = [number for _ in range(2) for (number,) in adapter.generator()]
    assert read == list(range(1, 11))


@pytest.mark.parametrize("in_each", [1, 2, 5])
def test_an_epoch_that_a_look_has_read_to_its_end_is_read_once(adapter_of, in_each):
    adapter = adapter_of(in_each)
    looked_at = list(adapter.generator())
    adapter.on_epoch_end()
    assert list(adapter.generator()) == looked_at
    adapter.on_epoch_end()
    assert [number for (number,) in adapter.generator()] == list(
        range(in_each + 1, 2 * in_each + 1)
    )


def test_what_is_no_look_is_not_kept(adapter_of):
    adapter = adapter_of(200)
    assert len(list(adapter.generator())) == 200
    adapter.on_epoch_end()  # As predict does, which has not looked.
    assert adapter._looked_at == adapter._again == []


def test_fit_on_a_device_that_is_given_batches_ahead_trains_on_each():
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "fit_batches_ahead.py")],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    assert steps == {"1": 3, "2": 6, "5": 15}
