"""What nodes write, brought to the driver: ``spark.tfos.logs=driver``."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfos.base.page import PageLink
from tfos.errors import TfosError

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0
_FETCH_SECONDS = 30.0
#: How many nodes are asked at a time: one whose host stands still keeps the answer waiting.
_ASKED_AT_ONCE = 8
#: An answer has 256 KiB at most, and an agent keeps 1 MiB.
_ANSWERS_OF_A_ROUND = 4
_FULL_ANSWER_BYTES = 128 << 10
#: The most lines of one node: so many at once, and so many a second from then on.
_MOST_LINES = 200
_LINES_PER_SECOND = 20.0
_MOST_CHARACTERS = 2000
#: A line is shown without its end after so many: a progress bar may run for hours.
_MOST_UNFINISHED = 16 << 10
#: Moves a terminal's cursor, colors what follows, or gives its window a title. No part goes past
#: the next escape: the time for a line would grow with the square of its length.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


class LineLimit:
    """How many lines of one node are shown.

    Owner and lifetime: a value. Threads: one at a time. clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._free = float(_MOST_LINES)
        self._last = clock()
        self._left_out = 0

    def take(self, lines: list[str]) -> tuple[int, list[str]]:
        """How many lines were left out before the ones that are shown, and those: the latest."""
        now = self._clock()
        self._free = min(_MOST_LINES, self._free + (now - self._last) * _LINES_PER_SECOND)
        self._last = now
        shown = min(len(lines), int(self._free))
        self._free -= shown
        self._left_out += len(lines) - shown
        if not shown:
            return 0, []
        left_out, self._left_out = self._left_out, 0
        return left_out, lines[-shown:]

    def left_out(self) -> int:
        """That no one has been told of. They are told of then."""
        left_out, self._left_out = self._left_out, 0
        return left_out


def shown_line(line: str) -> str:
    """A line as it looks where it was written: a progress bar writes over itself."""
    parts = [part for part in line.split("\r") if part.strip()]
    text = _CONTROL.sub("", _ESCAPE.sub("", parts[-1] if parts else ""))
    return f"{text[:_MOST_CHARACTERS]} ..." if len(text) > _MOST_CHARACTERS else text


class NodeOutput:
    """The output of one node: what was told of it, and what is shown.

    Owner and lifetime: the one who follows it. Threads: one at a time.
    """

    def __init__(self, name: str, agent: Any, clock: Callable[[], float]):
        """agent: tells this node's agent from another one's."""
        self.agent = agent
        self.position = 0
        self.ended = False
        self._name = name
        self._limit = LineLimit(clock)
        self._rest = ""  # of a line that has no end yet

    def take(self, answer: dict[str, Any]) -> list[str]:
        """The lines to show of an ``answer`` of docs/formats/control-protocol.md."""
        shown = []
        if answer["from"] > self.position:
            shown.append(f"... {answer['from'] - self.position:,} bytes are left out ...")
            self._rest = ""
        self.position, self.ended = answer["next"], answer["ended"]
        *whole, self._rest = (self._rest + answer["text"]).split("\n")
        if self._rest and (self.ended or len(self._rest) > _MOST_UNFINISHED):
            whole.append(self._rest)
            self._rest = ""
        left_out, lines = self._limit.take([shown_line(line) for line in whole])
        if self.ended:
            left_out += self._limit.left_out()
        if left_out:
            shown.append(self._gap(left_out))
        return [f"{self._name} | {line}" for line in [*shown, *lines]]

    def _gap(self, left_out: int) -> str:
        lines = "line is" if left_out == 1 else "lines are"
        return f"... {left_out:,} {lines} left out: the executor's log has all of them ..."


class OutputFollower:
    """Shows what nodes write, as ``tfos logs -f`` gets it: from their agents, through the
    coordinator.

    Owner and lifetime: the cluster, which calls ``finish`` before the coordinator ends. Threads:
    some of its own ask, and ``show`` is called in one of them at a time; ``finish`` may be called
    from any.
    Errors: none; a coordinator that does not answer is asked again.
    """

    def __init__(
        self,
        link: PageLink,
        nodes: Callable[[], list[dict[str, Any]]],
        show: Callable[[list[str]], None],
    ):
        """nodes: all of them, as NODEs. show: takes lines."""
        self._link = link
        self._nodes = nodes
        self._show = show
        self._outputs: dict[int, NodeOutput] = {}
        self._showing = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfos-output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """The nodes have ended: shows the last that they have written."""
        self._ending.set()
        self._thread.join(_FETCH_SECONDS)

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(_ASKED_AT_ONCE, "tfos-ask-output") as pool:
                over = False
                while not over:
                    over = self._ending.wait(_INTERVAL_SECONDS)
                    self._look(pool)
        except Exception as error:  # a thread's boundary, and the training is worth more
            logger.warning("the output of the nodes is not shown any more: %s", error)

    def _look(self, pool: ThreadPoolExecutor) -> None:
        try:
            nodes = [node for node in self._nodes() if node["state"] != "expected"]
            for _ in pool.map(self._look_at, nodes):
                pass
        except TfosError as error:
            logger.info("no output of the nodes: %s", error)

    def _look_at(self, node: dict[str, Any]) -> None:
        node_id = node["node_id"]
        output = self._outputs.get(node_id)
        # Another one may have come in its place. In two containers, agents may have one number.
        agent = (node["agent_pid"], node["host"], node["executor_id"])
        if output is None or output.agent != agent:
            name = f"{node['job_name']}:{node['task_index']}"
            output = NodeOutput(name, agent, time.monotonic)
            self._outputs[node_id] = output
        # A node that never stops writing always has more.
        for _ in range(_ANSWERS_OF_A_ROUND):
            if output.ended:
                return
            answer = self._link.fetch_output(node_id, output.position, _FETCH_SECONDS)
            if not answer:
                return
            if lines := output.take(answer):
                with self._showing:
                    self._show(lines)
            if answer["next"] - answer["from"] < _FULL_ANSWER_BYTES:
                return
