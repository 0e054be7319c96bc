"""What a program may report as metrics, without an agent."""

import json

import pytest

from tfos.errors import BadInputError
from tfos.node import agent_link


class NativeLink:
    """Takes what would go to the agent."""

    bootstrap = "{}"
    payload = b""

    def __init__(self):
        self.metrics = {}

    @classmethod
    def from_environment(cls):
        return cls()

    def set_metrics(self, text):
        self.metrics = json.loads(text)


@pytest.fixture
def link(monkeypatch):
    class Native:
        NodeLink = NativeLink

    monkeypatch.setattr(agent_link, "_native", Native)
    return agent_link.AgentLink()


def test_known_metrics_are_reported_after_one_too_many(link):
    link.report({f"m{index}": index for index in range(agent_link.MOST_METRICS)})
    with pytest.raises(
        BadInputError, match="at most 192 metrics, and 'one more' would be one more"
    ):
        link.report({"m0": 100, "one more": 1})
    assert link._native.metrics["m0"] == 0
    link.report({"m0": 7})
    assert link._native.metrics["m0"] == 7 and len(link._native.metrics) == agent_link.MOST_METRICS


def test_a_bad_metric_leaves_the_others_as_they_are(link):
    link.report({"step": 1})
    with pytest.raises(BadInputError, match="a name that isn't empty"):
        link.report({"step": 2, "": 1})
    link.report({"loss": 0.5})
    assert link._native.metrics == {"step": 1, "loss": 0.5}


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2.0**64),
        (10**400, "inf"),
        (-(10**400), "-inf"),
    ],
)
def test_integers_beyond_64_bits_are_the_nearest_numbers(link, value, reported):
    link.report({"seed": value})
    assert link._native.metrics == {"seed": reported}
    assert type(link._native.metrics["seed"]) is type(reported)
