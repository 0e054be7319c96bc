"""A node of a simulated cluster that answers what people ask of it, as its agent would."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from support.page.simulated_cluster import SimulatedCluster
from support.waiting import wait_for

#: In one answer.
_MOST_CHARACTERS = 256 << 10
_KEPT_CHARACTERS = 1 << 20


class TalkingNode:
    """Owner and lifetime: a ``with`` block, within that of the cluster. Threads: one of its own
    answers; the others are the test's.

    asked: the questions that have come.
    written_later: the node writes the next one of these after each answer about its output.
    """

    def __init__(self, cluster: SimulatedCluster, node_id: int):
        self.asked: list[dict[str, Any]] = []
        self.written_later: list[str] = []
        self._agent = cluster.agents[node_id]
        self._output = ""
        self._gone = 0
        self._held: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> TalkingNode:
        self._agent.socket.settimeout(None)
        self._thread.start()
        return self

    def __exit__(self, *_error: Any) -> None:
        with contextlib.suppress(OSError):  # The coordinator may have ended it.
            self._agent.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def write(self, text: str, keep: bool = True) -> None:
        """The node writes something. ``keep``: its agent still has it when somebody asks; without
        it, only what is written later."""
        with self._lock:
            self._add(text)
            if not keep:
                self._gone = len(self._output)
                return
            held, self._held = self._held, []
            for question in held:
                self._tell(question)

    def end(self) -> None:
        """The node ends, and its agent says what it has written."""
        with self._lock:
            text = self._output[self._gone :]
            self._answer(-1, text, self._gone, ended=True)
            self._agent.say("done")

    def await_question(self, about: str, count: int = 1) -> dict[str, Any]:
        """The latest one of so many about this."""
        wait_for(lambda: len(self._about(about)) >= count, f"{count} questions about {about}")
        return self._about(about)[-1]

    def tell_stacks(self, question: dict[str, Any], text: str, refused: bool = False) -> None:
        with self._lock:
            self._answer(question["number"], text, refused=refused)

    def _about(self, about: str) -> list[dict[str, Any]]:
        return [question for question in self.asked if question["about"] == about]

    def _add(self, text: str) -> None:
        self._output += text
        self._gone = max(self._gone, len(self._output) - _KEPT_CHARACTERS)

    def _serve(self) -> None:
        while (message := self._agent.hear()) is not None:
            if message["type"] != "question":
                continue
            with self._lock:
                if message["about"] == "output":
                    self._tell(message)
                    if self.written_later:
                        self._add(self.written_later.pop(0))
                self.asked.append(message)

    def _tell(self, question: dict[str, Any]) -> None:
        """Answers about output now, or as soon as there is some. Positions are of ASCII."""
        after = question["after"]
        if after < 0:
            lines = self._output[self._gone :].splitlines(keepends=True)
            text = "".join(lines[-question["lines"] :])[-_MOST_CHARACTERS:]
            self._answer(question["number"], text, len(self._output) - len(text))
        elif after < len(self._output) or question["wait_ms"] == 0:
            start = max(after, self._gone)
            text = self._output[start:]
            if len(text) > _MOST_CHARACTERS:
                text = text[: text.rindex("\n", 0, _MOST_CHARACTERS) + 1]
            self._answer(question["number"], text, start)
        else:
            self._held.append(question)

    def _answer(
        self, number: int, text: str, start: int = 0, ended: bool = False, refused: bool = False
    ) -> None:
        self._agent.say(
            "answer",
            number=number,
            text=text,
            **{"from": start},
            next=start + len(text),
            ended=ended,
            refused=refused,
        )
