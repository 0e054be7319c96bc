"""Where the versions of Keras keep the number of batches that an epoch has had."""

from __future__ import annotations

import contextlib
import importlib

import pytest

from tfos.feed import keras_epochs


def before_3_7():
    """Only the class of TensorFlow's backend looks out for the end of an epoch."""

    class Reader:
        number = None

    class OfTensorFlow(Reader):
        @contextlib.contextmanager
        def catch_stop_iteration(self):
            yield
            self.number = self.number or 7

    return Reader, OfTensorFlow


def from_3_7():
    class Reader:
        number = None

        @contextlib.contextmanager
        def catch_stop_iteration(self):
            yield
            self.number = self.number or 7

    class OfTensorFlow(Reader):
        @contextlib.contextmanager
        def catch_stop_iteration(self):
            with super().catch_stop_iteration():
                yield

    return Reader, OfTensorFlow


@pytest.mark.parametrize("classes", [before_3_7, from_3_7])
def test_no_version_learns_how_many_batches_an_epoch_has(classes):
    reader, of_tensorflow = classes()
    for forgets in (False, True):
        if forgets:
            keras_epochs._forget_number(reader, "number")
            keras_epochs._forget_number(of_tensorflow, "number")
        found = of_tensorflow()
        with found.catch_stop_iteration():
            pass
        assert found.number == (None if forgets else 7)


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_a_class_of_the_keras_that_is_here_looks_out_for_the_end(package):
    readers = [
        getattr(importlib.import_module(module), kind)
        for module, kind, _ in keras_epochs._READERS
        if module.startswith(f"{package}.")
    ]
    assert any("catch_stop_iteration" in vars(reader) for reader in readers)
