"""What a profile has besides stacks, without an agent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfos.node import profiling


def test_threads_of_a_pool_have_one_name():
    both = threading.Barrier(3)
    with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
        pool.submit(both.wait)
        pool.submit(both.wait)
        names = profiling.thread_names()
        both.wait()
    assert list(names.values()).count("pool_N") == 2
    assert names[threading.main_thread().ident] == "MainThread"


def test_cpu_time_is_told_by_thread():
    before = profiling.cpu_seconds()["MainThread"]
    while profiling.cpu_seconds()["MainThread"] <= before:
        pass


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a text"])
def test_only_numbers_are_counters(value, monkeypatch):
    class Link:
        def metrics(self):
            return {"step": value, "rows": 3, "loss": 0.5}

    monkeypatch.setattr(profiling, "_link", Link())
    counters = profiling.counters()
    assert counters.pop("rows") == 3.0
    assert set(counters) == {"dataset_wait_seconds", "dataset_watched_seconds"}
