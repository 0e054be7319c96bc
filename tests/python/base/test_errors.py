"""The classes of errors: what a program can catch."""

from __future__ import annotations

import inspect
import pickle

import pytest

from tfos import errors

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_travel_between_processes(kind):
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(error) is kind and str(error) == "what happened"
    assert isinstance(error, errors.TfosError)


@pytest.mark.parametrize(
    "kind", [errors.FeedTimeoutError, errors.TensorTimeoutError, errors.ClusterTimeoutError]
)
def test_times_that_are_over_are_timeout_errors(kind):
    assert issubclass(kind, TimeoutError)
