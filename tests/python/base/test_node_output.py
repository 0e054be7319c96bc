"""What is shown of nodes' output in the driver, without nodes."""

from __future__ import annotations

import pytest

from support.waiting import wait_for
from tfos.base import node_output
from tfos.base.node_output import LineLimit, NodeOutput, OutputFollower, shown_line


class Clock:
    """Stands still until a test moves it."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def answer(text, *, start=0, ended=False):
    return {"from": start, "next": start + len(text), "text": text, "ended": ended}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("1/3\r2/3\r3/3\r", "3/3"),
        ("\x1b[1m3/3\x1b[0m \x1b[32m====\x1b[0m", "3/3 ===="),
        ("\x08\x08\x1b]0;title\x07moves\x1b[2J", "moves"),
        ("\x1b]0;title\x1b\\moves \x1b]0;on", "moves 0;on"),
        pytest.param("\x1b]" * (1 << 20) + "hello", "hello", id="sequences without an end"),
        ("", ""),
        ("é" * 3000, "é" * 2000 + " ..."),
        ("to\x9b2Jo", "to2Jo"),
    ],
)
def test_a_line_is_shown_as_it_looks(line, shown):
    assert shown_line(line) == shown


def test_lines_have_the_name_of_their_node(clock):
    output = NodeOutput("worker:1", 7, clock)
    assert output.take(answer("one\ntwo\nthr")) == ["worker:1 | one", "worker:1 | two"]
    assert output.position == 11 and not output.ended
    assert output.take(answer("ee\n", start=11)) == ["worker:1 | three"]
    last = output.take(answer("end", start=14, ended=True))
    assert last == ["worker:1 | end"] and output.ended


def test_a_line_without_an_end_is_shown_in_parts(clock):
    output = NodeOutput("worker:1", 7, clock)
    part = "".join(f"{number:6}/99999\r" for number in range(1000))
    for _ in range(50):
        shown = output.take(answer(part, start=output.position))
        shown += output.take(answer(part, start=output.position))
        assert shown == ["worker:1 |    999/99999"]
    assert output.take(answer("end\n", start=output.position)) == ["worker:1 | end"]


def test_bytes_that_are_gone_are_counted(clock):
    output = NodeOutput("worker:1", 7, clock)
    lines = output.take(answer("new\n", start=1234))
    assert lines == ["worker:1 | ... 1,234 bytes are left out ...", "worker:1 | new"]


def test_of_many_lines_the_latest_are_shown_and_the_others_counted(clock):
    limit = LineLimit(clock)
    many = [str(number) for number in range(1000)]
    assert limit.take(many) == (800, many[-200:])
    assert limit.take(many) == (0, [])
    clock.now += 1
    assert limit.take(many) == (1980, many[-20:]), "those of both times"
    clock.now += 3600
    assert limit.take(many) == (800, many[-200:]), "quiet hours are not saved up"


def test_what_was_left_out_is_told_at_the_end_at_last(clock):
    output = NodeOutput("worker:1", 7, clock)
    output.take(answer("x\n" * node_output._MOST_LINES))
    assert output.take(answer("y\n", start=400)) == []
    assert output.take(answer("", start=402, ended=True)) == [
        "worker:1 | ... 1 line is left out: the executor's log has all of them ..."
    ]


def node(number, executor_id="1"):
    return {
        "node_id": number,
        "job_name": "worker",
        "task_index": number,
        "agent_pid": 7,
        "host": "host",
        "executor_id": executor_id,
        "state": "running",
    }


def test_a_node_that_comes_again_in_another_container_is_shown():
    class Link:
        """A link to a node that has ended after a line."""

        def fetch_output(self, node_id, after, timeout):
            line = f"of executor {nodes[0]['executor_id']}\n"
            return answer(line[after:], start=after, ended=True)

    nodes = [node(0)]
    shown = []
    follower = OutputFollower(Link(), lambda: nodes, shown.extend)
    wait_for(lambda: "worker:0 | of executor 1" in shown, lambda: shown)
    # Its agent has the same number.
    nodes = [node(0, executor_id="2")]
    wait_for(lambda: "worker:0 | of executor 2" in shown, lambda: shown)
    follower.finish()


def test_a_node_that_never_stops_writing_hides_no_other_one():
    class Link:
        """A link to nodes of which the first has more whenever it is asked."""

        def fetch_output(self, node_id, after, timeout):
            if node_id == 0:
                return answer("more\n", start=after)
            return answer("the other one\n"[after:], start=after)

    nodes = [node(n) for n in range(2)]
    shown = []
    follower = OutputFollower(Link(), lambda: nodes, shown.extend)
    wait_for(lambda: "worker:1 | the other one" in shown, lambda: shown)
    follower.finish()
    assert shown.count("worker:1 | the other one") == 1
    assert "worker:0 | more" in shown
