"""What a program may report as metrics, without an agent."""

import json

import pytest

from support.waiting import wait_for
from tfos.errors import BadInputError
from tfos.node import agent_link


class NativeLink:
    """Takes what would go to the agent."""

    bootstrap = "{}"
    payload = b""

    def __init__(self):
        self.metrics = {}
        self.sent = []

    @classmethod
    def from_environment(cls):
        return cls()

    def set_metrics(self, text):
        self.metrics = json.loads(text)

    def send(self, text):
        self.sent.append(json.loads(text))


@pytest.fixture
def link(monkeypatch):
    class Native:
        NodeLink = NativeLink

    monkeypatch.setattr(agent_link, "_native", Native)
    return agent_link.AgentLink()


def test_rates_of_collective_operations_are_told_while_the_program_says_nothing(link, monkeypatch):
    """As it does while it waits for a node that stands still."""
    link.report({"step": 5})
    assert link._native.metrics == {"step": 5}
    monkeypatch.setattr(link._collectives, "look", lambda: {"share_waiting_for_nodes": 1.0})
    wait_for(lambda: len(link._native.metrics) == 2, "a look")
    assert link._native.metrics == {"step": 5, "share_waiting_for_nodes": 1.0}


def test_known_metrics_are_reported_after_one_too_many(link):
    link.report({f"m{index}": index for index in range(agent_link.MOST_METRICS)})
    with pytest.raises(
        BadInputError, match="at most 192 metrics, and 'one more' would be one more"
    ):
        link.report({"m0": 100, "one more": 1})
    assert link._native.metrics["m0"] == 0
    link.report({"m0": 7})
    assert link._native.metrics["m0"] == 7 and len(link._native.metrics) == agent_link.MOST_METRICS


def test_what_keras_says_does_not_replace_the_programs_word(link):
    link.report_of_keras({"step": 1, "loss": 0.5, "": 3, "accuracy": 0.25})
    assert link._native.metrics == {"step": 1, "loss": 0.5, "accuracy": 0.25}
    link.report({"step": 700})
    link.report_of_keras({"step": 2, "loss": 0.25})
    assert link._native.metrics == {"step": 700, "loss": 0.25, "accuracy": 0.25}
    link.report({f"m{index}": index for index in range(agent_link.MOST_METRICS - 1)})
    assert len(link._native.metrics) == agent_link.MOST_METRICS
    link.report_of_keras({"more": 1})
    assert "more" not in link._native.metrics and link._native.metrics["step"] == 700


def test_what_an_epoch_without_rows_does_not_have_keeps_its_last_value(link):
    link.report({"loss": 0.5, "epoch": 1})
    link.leave_out_unknown(True)
    link.report({"loss": float("nan"), "epoch": 2})
    assert link._native.metrics == {"loss": 0.5, "epoch": 2}
    link.leave_out_unknown(False)
    link.report({"loss": float("nan")})
    assert link._native.metrics == {"loss": "nan", "epoch": 2}


def test_what_a_node_does_is_said_once_and_then_its_state_again(link):
    link.say("importing TensorFlow")
    assert link._native.sent == [], "it has no state yet"
    link.enter("starting", "importing the program")
    for doing in ("importing TensorFlow", "importing TensorFlow", "", ""):
        link.say(doing)
    link.enter("running", feed={"port": 1})
    link.say("first step (tracing)")
    link.say("")
    running = {"type": "state", "state": "running", "feed": {"port": 1}}
    starting = {"type": "state", "state": "starting"}
    assert link._native.sent == [
        starting | {"detail": "importing the program"},
        starting | {"detail": "importing TensorFlow"},
        starting | {"detail": "importing the program"},
        running | {"detail": ""},
        running | {"detail": "first step (tracing)"},
        running | {"detail": ""},
    ]


def test_what_the_program_says_it_does_counts_more_than_what_is_said_by_itself(link):
    link.enter("running")
    with pytest.raises(ValueError, match="broken"), link.doing("exporting\nthe model"):
        link.say("evaluating")
        with link.doing("writing " + "x" * 1000):
            pass
        raise ValueError("broken")
    link.say("")
    assert [sent["detail"] for sent in link._native.sent] == [
        "",
        "exporting the model",
        "writing " + "x" * (agent_link.MOST_METRIC_BYTES - len("writing ")),
        "exporting the model",
        "evaluating",
        "",
    ]


def test_threads_of_a_program_end_their_words_in_any_order(link):
    link.enter("running")
    first, second = link.doing("exporting"), link.doing("exporting")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert link._native.sent[-1]["detail"] == "exporting"
    second.__exit__(None, None, None)
    assert [sent["detail"] for sent in link._native.sent] == ["", "exporting", ""]


@pytest.mark.parametrize("words", ["", " \n", None, 5])
def test_what_a_program_does_is_said_in_words(link, words):
    with (
        pytest.raises(BadInputError, match="say in words what the program is doing"),
        link.doing(words),
    ):
        pass


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


def test_what_is_no_metric_is_refused_by_its_name(link):
    with pytest.raises(BadInputError, match="metric 'loss': a number or a text, not list"):
        link.report({"loss": [1, 2]})
