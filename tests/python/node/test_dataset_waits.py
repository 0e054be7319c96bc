"""How long a program waits for its dataset, by traces of TensorFlow's profiler."""

from __future__ import annotations

import sys
import threading
import types

import pytest

from support.waiting import BOUND_SECONDS, wait_for
from tfos.node import dataset_waits
from tfos.node.dataset_waits import DatasetWaits, Seen, read

TAKE = b"IteratorGetNextOp::DoCompute"
SECOND = 10**12


def varint(number):
    text = b""
    while number > 0x7F:
        text += bytes([number & 0x7F | 0x80])
        number >>= 7
    return text + bytes([number])


def event(begin, seconds, name=TAKE):
    """As TensorFlow writes it: fields of TraceEvent that are zero are left out."""
    text = b"\x08" + varint(701) + b"\x10" + varint(7) + b"\x1a" + varint(len(name)) + name
    if begin:
        text += b"\x48" + varint(round(begin * SECOND))
    if seconds:
        text += b"\x50" + varint(round(seconds * SECOND))
    return b"\x22" + varint(len(text)) + text


def test_waits_are_told_from_the_end_of_the_first_batch_to_that_of_the_last():
    trace = event(3, 0.5) + event(0, 1) + event(1.5, 0.25) + event(1, 9, b"ExecutorState::Process")
    assert read(trace) == Seen(0.75, 2.5)


def test_batches_that_are_taken_at_the_same_time_count_once():
    optional = b"IteratorGetNextAsOptionalOp::DoCompute"
    assert read(event(0, 1) + event(1, 2, optional) + event(2, 2, optional)) == Seen(3, 3)


@pytest.mark.parametrize("trace", [b"", event(1, 1), event(1, 1)[:-2], event(0, 5, b"Sort:Sort")])
def test_less_than_two_batches_tell_nothing(trace):
    assert read(trace) == Seen()


def test_a_trace_with_wrong_bits_is_read():
    trace = event(0, 1) + event(1.5, 0.25)
    for bit in range(8 * len(trace)):
        flipped = bytearray(trace)
        flipped[bit // 8] ^= 1 << bit % 8
        read(bytes(flipped))


class Session:
    """In place of TensorFlow's. Each trace has two batches."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def start(self, folder, options):
        assert (folder, options["host_tracer_level"]) == ("", 1)
        self.begun.set()

    def stop(self):
        self.ended.set()
        return event(0, 1) + event(2, 3)


@pytest.fixture
def tensorflow(monkeypatch):
    """TensorFlow's modules, with a session that a test may look at."""
    profiler = types.SimpleNamespace(_profiler_lock=threading.Lock(), _profiler=None)
    sessions = types.SimpleNamespace(made=[])
    sessions.ProfilerSession = lambda: sessions.made.append(Session()) or sessions.made[-1]
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    monkeypatch.setitem(sys.modules, dataset_waits._PROFILER, profiler)
    monkeypatch.setitem(sys.modules, dataset_waits._SESSIONS, sessions)
    return types.SimpleNamespace(profiler=profiler, made=sessions.made)


def ended(waits):
    return waits._thread is not None and not waits._thread.is_alive()


def test_it_looks_until_it_has_seen_enough(tensorflow):
    waits = DatasetWaits(lambda: None)
    waits.begin()
    waits._thread.join(BOUND_SECONDS)
    waits.end()
    assert len(tensorflow.made) == 1
    assert waits.counters() == {"dataset_wait_seconds": 3, "dataset_watched_seconds": 4}
    waits.begin()
    assert ended(waits), "the same profile goes on"


def test_a_profile_ends_a_look_that_has_seen_its_steps(tensorflow, monkeypatch):
    for name in ("_FIRST", "_LONGEST"):
        monkeypatch.setattr(dataset_waits, name, 10 * BOUND_SECONDS)
    waits = DatasetWaits(lambda: None)
    waits.begin()
    wait_for(lambda: tensorflow.made, "a look")
    assert tensorflow.made[0].begun.wait(BOUND_SECONDS)
    waits.end()
    assert tensorflow.made[0].ended.wait(BOUND_SECONDS)
    wait_for(lambda: waits.counters()["dataset_watched_seconds"], "what was seen")


def test_a_look_holds_the_programs_own_profiler_back(tensorflow, monkeypatch):
    for name in ("_FIRST", "_LONGEST"):
        monkeypatch.setattr(dataset_waits, name, 10 * BOUND_SECONDS)
    waits = DatasetWaits(lambda: None)
    waits.begin()
    wait_for(lambda: tensorflow.made, "a look")
    assert tensorflow.profiler._profiler_lock.locked()
    waits.end()
    waits._thread.join(BOUND_SECONDS)
    assert not tensorflow.profiler._profiler_lock.locked()


def test_the_programs_own_profiler_goes_first(tensorflow):
    tensorflow.profiler._profiler = object()
    waits = DatasetWaits(lambda: None)
    waits.begin()
    waits._thread.join(BOUND_SECONDS)
    waits.end()
    assert tensorflow.made == []
    assert waits.counters()["dataset_watched_seconds"] == 0


def test_without_tensorflow_nothing_runs(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    waits = DatasetWaits(lambda: None)
    waits.begin()
    waits.end()
    assert waits._thread is None


def test_a_tensorflow_without_such_a_profiler_is_let_be(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    monkeypatch.setitem(sys.modules, dataset_waits._PROFILER, None)
    waits = DatasetWaits(lambda: None)
    waits.begin()
    waits._thread.join(BOUND_SECONDS)
    waits.end()
    assert waits.counters()["dataset_watched_seconds"] == 0
