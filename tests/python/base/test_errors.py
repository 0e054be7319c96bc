"""The classes of errors: what a program can catch."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import pytest

from tfos import errors

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__ and kind is not errors.Failure
]
FAILURE = {
    "node_id": 2,
    "job_name": "worker",
    "task_index": 1,
    "host": "host-a",
    "executor_id": "4",
    "step": "run the program",
    "message": "ValueError: no layer",
    "traceback": "Traceback ...",
    "log_tail": ["a", "b"],
    "lost": False,
    "output_url": "http://host-a/stderr",
}


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


def test_a_failure_says_who_failed_at_what_and_why():
    error = errors.NodeFailedError.from_message(FAILURE)
    failure = pickle.loads(pickle.dumps(error)).failure
    assert dataclasses.asdict(failure) == {**FAILURE, "log_tail": ("a", "b")}
    with pytest.raises(dataclasses.FrozenInstanceError):
        failure.step = "another"


def test_what_is_not_known_of_a_failure_is_none_or_empty():
    message = {"node_id": -1, "step": "start the cluster", "message": "no slot"}
    failure = errors.NodeFailedError.from_message(message).failure
    known = {name: value for name, value in dataclasses.asdict(failure).items() if value}
    assert known == {"step": "start the cluster", "message": "no slot"}
    assert failure.node_id is None and failure.task_index is None
    assert errors.NodeFailedError("the text alone").failure is None
