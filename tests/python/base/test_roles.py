"""Roles are a pure function of what was asked for."""

import pytest

from tfos.base.roles import members_of, plan_roles, service_nodes, tensorboard_node
from tfos.errors import BadInputError


@pytest.mark.parametrize(
    "nodes, options, expected",
    [
        (1, {}, {"worker": 1}),
        (3, {"parameter_servers": 1}, {"ps": 1, "worker": 2}),
        (3, {"ps": 1}, {"ps": 1, "worker": 2}),
        (2, {"chief": "chief"}, {"chief": 1, "worker": 1}),
        (1, {"chief": "master"}, {"master": 1}),
        (
            5,
            {
                "parameter_servers": 1,
                "chief": "chief",
                "evaluator": True,
                "input_mode": "tensorflow",
            },
            {"ps": 1, "chief": 1, "evaluator": 1, "worker": 2},
        ),
    ],
)
def test_order_and_counts(nodes, options, expected):
    roles = plan_roles(nodes, **options)
    assert [(role["job"], role["count"]) for role in roles] == list(expected.items())


@pytest.mark.parametrize(
    "nodes, options, words",
    [
        (0, {}, "at least 1 node"),
        ("2", {}, "nodes='2': must be a whole number"),
        (1.5, {}, "nodes=1.5: must be a whole number"),
        (True, {}, "nodes=True: must be a whole number"),
        (2, {"ps": "1"}, "ps='1': must be a whole number"),
        (2, {"parameter_servers": 2}, "too few for 2 parameter servers and at least one node"),
        (4, {"ps": 1, "parameter_servers": 1}, "choose ps= or parameter_servers=, not both"),
        (4, {"ps": -1}, "ps=-1: must be 0 or more"),
        (4, {"parameter_servers": -2}, "parameter_servers=-2: must be 0 or more"),
        (1, {"parameter_servers": 1, "chief": "chief"}, "for 1 parameter server, 1 chief and"),
        (2, {"chief": "boss"}, "'chief' or 'master'"),
        (2, {"input_mode": "hdfs"}, "'spark' or 'tensorflow'"),
        (2, {"evaluator": True}, "evaluator needs input mode"),
        (2, {"driver_parameter_servers": True, "parameter_servers": 1}, "busy feeding"),
        (2, {"driver_parameter_servers": True, "input_mode": "tensorflow"}, "number is 0"),
    ],
)
def test_what_cannot_be_is_refused(nodes, options, words):
    with pytest.raises(BadInputError, match=words):
        plan_roles(nodes, **options)


def test_tensorboard_runs_beside_the_chief_or_the_first_worker():
    assert tensorboard_node(plan_roles(3, parameter_servers=1)) == 1
    assert tensorboard_node(plan_roles(3, parameter_servers=1, chief="chief")) == 1
    assert tensorboard_node(plan_roles(2)) == 0
    evaluated = plan_roles(4, ps=1, evaluator=True, input_mode="tensorflow")
    assert tensorboard_node(evaluated) == 2


def test_a_role_is_known_by_what_is_no_service_alone():
    """So a new one needs a line in `plan_roles`, and nothing else."""
    roles = [{"job": "ps", "count": 2}, {"job": "ranker", "count": 3}]
    assert service_nodes(roles) == {0, 1}
    assert tensorboard_node(roles) == 2


@pytest.mark.parametrize("chief", ["chief", "master"])
def test_who_trains_together_begins_with_the_chief(chief):
    jobs = [("worker", 1), ("ps", 0), ("worker", 0), ("evaluator", 0), (chief, 0)]
    ranks = [2, -1, 1, -1, 0]  # As the coordinator has given them.
    nodes = [
        {"job_name": job, "task_index": index, "rank": rank}
        for (job, index), rank in zip(jobs, ranks, strict=True)
    ]
    members = [(node["job_name"], node["task_index"]) for node in members_of(nodes)]
    assert members == [(chief, 0), ("worker", 0), ("worker", 1)]
