"""Arguments that a cluster refuses before it does anything, without a cluster."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tfos import parallel
from tfos.base.quantities import seconds
from tfos.cluster.cluster import Cluster
from tfos.cluster.training import plan_training
from tfos.errors import BadInputError

#: It has nothing else, so a call that went on would fail otherwise.
RUNNING = SimpleNamespace(
    input_mode="tensorflow",
    spark_context=None,
    _closing=SimpleNamespace(has_begun=False, wants_results=False),
)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Cluster.shutdown(RUNNING, timeout="soon"), "timeout='soon'"),
        (lambda: Cluster.shutdown(RUNNING, service_grace=[1]), r"service_grace=\[1\]"),
        (lambda: Cluster.wait(RUNNING, timeout="x"), "timeout='x'"),
        (lambda: Cluster.train(RUNNING, None, feed_timeout="1 mile"), "feed_timeout='1 mile'"),
        (lambda: Cluster.inference(RUNNING, None, feed_timeout=-1), "feed_timeout=-1"),
        (lambda: parallel.run(None, print, instances="2"), "instances='2'"),
        (lambda: plan_training({}, "3", False, None), "epochs='3'"),
        (lambda: plan_training({}, 1.5, False, None), "epochs=1.5"),
        (lambda: plan_training({}, 1, "yes", None), "shuffle='yes'"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named_and_nothing_begins(call, said):
    with pytest.raises(BadInputError, match=f"^{said}: must be"):
        call()
    assert not RUNNING._closing.has_begun and not RUNNING._closing.wants_results


@pytest.mark.parametrize("interval", [0, math.inf, 1e9])
def test_a_table_is_not_looked_at_without_a_pause(interval):
    with pytest.raises(BadInputError, match="interval=.* above 0 and at most"):
        Cluster.watch(RUNNING, interval)


@pytest.mark.parametrize(
    ("given", "meant"),
    [(0, 0), (1.5, 1.5), (np.int64(3), 3), ("90", 90), ("10min", 600), ("1.5 h", 5400)],
)
def test_seconds_may_name_another_unit(given, meant):
    assert seconds("timeout", given) == meant


@pytest.mark.parametrize("given", ["soon", "10 miles", None, -1, "-3s", True, [5], math.nan])
def test_what_is_no_time_is_refused_by_the_name_of_its_argument(given):
    with pytest.raises(BadInputError, match=r"^timeout=.*must be seconds, or a text such as"):
        seconds("timeout", given)
