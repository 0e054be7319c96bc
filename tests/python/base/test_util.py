"""Cluster sizes from a session's configuration."""

import pytest

from support.spark.fake import FakeSparkContext, fake_session
from support.waiting import wait_for
from tfos import util
from tfos.errors import BadInputError


def session(**settings):
    conf = {f"spark.{key.replace('_', '.')}": value for key, value in settings.items()}
    return fake_session(FakeSparkContext(conf=conf))


def test_sizes_that_the_session_has():
    assert util.num_executors(session(executor_instances="4")) == 4
    assert (
        util.num_executors(
            session(dynamicAllocation_enabled="true", dynamicAllocation_maxExecutors="7")
        )
        == 7
    )
    assert util.num_param_servers(session(tfos_parameterServers="2")) == 2
    assert util.num_param_servers(session(tensorflow_num_ps="1")) == 1
    assert util.num_param_servers(session()) == 0


def test_sizes_that_it_does_not_have():
    with pytest.raises(BadInputError, match="spark.dynamicAllocation.maxExecutors"):
        util.num_executors(session(dynamicAllocation_enabled="true"))
    with pytest.raises(
        BadInputError, match="spark.executor.instances=many is not a number of executors"
    ):
        util.num_executors(session(executor_instances="many"))
    said = "spark.tfos.parameterServers=two is not a number of parameter servers"
    with pytest.raises(BadInputError, match=said):
        util.num_param_servers(session(tfos_parameterServers="two"))


def test_executors_that_are_there(spark):
    # A session begins before its executors have registered.
    wait_for(lambda: util.num_executors(spark) == 2, "two executors")
