"""`tfos logs` of a simulated node that has written more than fits into one answer."""

from __future__ import annotations

from support.operating import tfos as run_tfos
from support.page.simulated_cluster import SimulatedCluster
from support.page.talking_node import TalkingNode
from support.waiting import BOUND_SECONDS


def lines(start, stop):
    return "".join(f"line {number:6}: {'x' * 84}\n" for number in range(start, stop))


def logs(cluster, count):
    shown = run_tfos("logs", "chief:0", "--link", "--lines", count, link=cluster.link)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_as_many_lines_as_are_wanted_are_shown():
    with SimulatedCluster(1) as cluster, TalkingNode(cluster, 0) as node:
        node.write(lines(0, 10_000))
        assert logs(cluster, 9_000) == lines(1_000, 10_000)
        assert logs(cluster, 20_000) == lines(0, 10_000)


def test_a_node_that_writes_faster_than_it_is_read_shows_as_many_lines_too():
    with SimulatedCluster(1) as cluster, TalkingNode(cluster, 0) as node:
        node.write(lines(0, 10_000))
        # The agent drops what was to come next.
        node.written_later = [lines(10_000, 11_000), lines(11_000, 19_000)]
        shown = logs(cluster, 5_000)
        first = int(shown[len("line ") : shown.index(":")])
        assert shown == lines(first, first + 5_000)
        # What it had written when it was asked is there.
        assert first + 5_000 >= 10_000


def test_a_node_that_goes_on_writing_faster_than_it_is_read_ends_the_command():
    with SimulatedCluster(1) as cluster, TalkingNode(cluster, 0) as node:
        node.written_later = [lines(0, 15_000)] * 50
        node.write(lines(0, 10_000))
        assert logs(cluster, 5_000)
        assert node.written_later


def test_what_is_shown_begins_with_a_line():
    with SimulatedCluster(1) as cluster, TalkingNode(cluster, 0) as node:
        node.write(lines(0, 10) + "the begin of a", keep=False)
        node.write(" line\n" + lines(11, 10_000))
        assert logs(cluster, 20_000) == lines(11, 10_000)


def test_of_a_node_that_has_ended_no_more_lines_are_shown_than_are_wanted():
    with SimulatedCluster(1) as cluster, TalkingNode(cluster, 0) as node:
        cluster.run(0)
        node.write(lines(0, 1_000) + "the end")
        logs(cluster, 1)
        node.end()
        assert cluster.coordinator.wait(
            lambda: cluster.coordinator.nodes()[0]["state"] == "done", BOUND_SECONDS
        )
        assert logs(cluster, 3) == lines(998, 1_000) + "the end"
        assert logs(cluster, 0) == ""
        assert logs(cluster, 20_000) == lines(0, 1_000) + "the end"
