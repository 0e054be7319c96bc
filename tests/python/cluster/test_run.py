"""What ``tfos.run`` refuses and warns of before anything starts."""

from __future__ import annotations

import dataclasses
import logging

import cloudpickle
import pytest

import tfos
from support.spark.fake import FakeSparkContext, fake_session
from tfos.base import network
from tfos.cluster import launch, plan, start
from tfos.errors import BadInputError
from tfos.settings import Settings


def run(conf=None, master="local[1]", **arguments):
    """Asks for more nodes than there are slots, so that nothing starts."""
    context = FakeSparkContext(master, conf=conf, slots_by_look=[1])
    context.pythonExec = "python3"
    return tfos.run(fake_session(context), print, **{"nodes": 2, **arguments})


def test_a_misspelt_key_of_the_configuration_is_warned_of(caplog):
    caplog.set_level(logging.WARNING)
    conf = {"spark.tfos.feed.memry": "1g", "spark.tfos.stop.grace": "1s", "spark.app.name": "a"}
    with pytest.raises(BadInputError, match="2 nodes were asked for"):
        run(conf)
    (said,) = [record.getMessage() for record in caplog.records]
    assert (
        "spark.tfos.feed.memry is not a setting of tfos; is spark.tfos.feed.memory meant?" in said
    )


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ({}, "10.0.0.7"),
        ({"coordinator_bind_address": "::"}, "10.0.0.7"),
        # What it listens on alone decides then.
        ({"coordinator_bind_address": "10.0.0.8"}, ""),
        ({"coordinator_advertised_address": "edge-1"}, "edge-1"),
    ],
)
def test_the_coordinator_is_reached_where_the_driver_is(monkeypatch, settings, advertised):
    monkeypatch.setattr(network, "own_address", lambda host: host)
    resolved = Settings.resolve(lambda key: None, settings)
    asked = plan.ClusterPlan(
        plan.ClusterRequest(nodes=1), [], resolved, b"", driver_host="10.0.0.7"
    )
    told = asked.of_coordinator("c1", "app", "token")
    assert told["advertised_address"] == advertised


def test_the_coordinator_is_told_of_the_losses_that_are_borne():
    settings = {"restarts": 3, "hosts_loss_period": "2m", "hosts_max_losses": 5}
    resolved = Settings.resolve(lambda key: None, settings)
    asked = plan.ClusterPlan(plan.ClusterRequest(nodes=1), [], resolved, b"", driver_host="h")
    told = asked.of_coordinator("c1", "app", "token")
    assert (told["restarts"], told["loss_period_ms"], told["max_losses_of_host"]) == (3, 120_000, 5)


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), 0, -1])
def test_a_registration_timeout_that_cannot_be_is_refused(timeout):
    with pytest.raises(BadInputError, match="registration_timeout="):
        run(registration_timeout=timeout)


def test_the_start_says_what_is_encrypted(capsys):
    for setting, said in (("auto", "between hosts are encrypted"), (False, "are not encrypted")):
        with pytest.raises(BadInputError, match="2 nodes were asked for"):
            run(encrypt=setting)
        assert said in capsys.readouterr().err


def test_rdma_is_refused_with_encryption_of_everything_and_warned_of_otherwise(caplog):
    with pytest.raises(BadInputError, match="UCX .rdma. can't be encrypted"):
        run(encrypt=True, rdma=True)
    assert not caplog.records
    with pytest.raises(BadInputError, match="2 nodes were asked for"):
        run(rdma=True)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "over UCX (spark.tfos.rdma=true) are not encrypted" in said


@pytest.mark.parametrize(
    ("master", "attempts", "arguments", "said"),
    [
        ("yarn", None, {}, ["spark.task.maxFailures is 4"]),
        ("local-cluster[2,1,1024]", "16", {}, ["spark.task.maxFailures is 16"]),
        ("yarn", "17", {}, []),
        ("yarn", "4", {"restarts": 3}, ["spark.task.maxFailures is 4"]),
        ("yarn", "4", {"restarts": 2}, []),
        ("yarn", None, {"nodes": 3}, []),
        ("yarn", None, {"late_nodes": False}, []),
        ("yarn", None, {"input_mode": "spark"}, []),
        ("local[1]", None, {}, []),
    ],
)
def test_too_few_attempts_for_nodes_that_come_again_are_warned_of(
    master, attempts, arguments, said, caplog
):
    conf = {"spark.tfos.slots.timeout": "0.01"}
    if attempts:
        conf["spark.task.maxFailures"] = attempts
    asked = {"nodes": (2, 3), "input_mode": "tensorflow", **arguments}
    with pytest.raises(BadInputError, match="nodes were asked for"):
        run(conf, master, **asked)
    warnings = [record.getMessage() for record in caplog.records]
    assert [text.partition(":")[0] for text in warnings] == said


def test_plans_do_not_show_their_keys():
    shown = {field.name for field in dataclasses.fields(launch.LaunchPlan) if field.repr}
    assert not {"keys", "payload", "hadoop_environment"} & shown


def test_a_program_that_cannot_be_called_is_refused():
    context = FakeSparkContext("local[1]")
    with pytest.raises(BadInputError, match="must be a function of ctx, not 'train.py'"):
        tfos.run(fake_session(context), "train.py", nodes=2)


class Counted:
    """Counts how often it was pickled."""

    pickled = 0

    def __reduce__(self):
        Counted.pickled += 1
        return Counted, ()


class Unpicklable:
    def __reduce__(self):
        raise TypeError("it holds a lock")


def test_arguments_are_pickled_once():
    Counted.pickled = 0
    main, args = cloudpickle.loads(start._pickled(print, Counted()))
    assert Counted.pickled == 1 and main is print and isinstance(args, Counted)


@pytest.mark.parametrize(
    ("main", "args", "what"), [(Unpicklable(), None, "the program"), (print, Unpicklable(), "args")]
)
def test_what_cannot_be_pickled_is_named(main, args, what):
    with pytest.raises(BadInputError, match=f"^{what} can't be sent to the nodes: .*holds a lock"):
        start._pickled(main, args)
