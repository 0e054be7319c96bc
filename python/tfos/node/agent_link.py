"""A node's link to its agent."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tfos import _native
from tfos.base import control_message
from tfos.errors import BadInputError
from tfos.node import collectives

logger = logging.getLogger(__name__)

#: What a metrics message may hold, as docs/formats/control-protocol.md says.
MOST_METRICS = 192
MOST_METRIC_BYTES = 256
#: NaN as it is reported: JSON has no number for it.
_NAN = str(math.nan)
#: How often rates are looked at where the program reports nothing, as while it waits.
_LOOK_SECONDS = 1.0


class _Doing:
    """Words of the program. Two are never equal, as two threads may say the same."""

    def __init__(self, words: str) -> None:
        if not isinstance(words, str) or not words.strip():
            raise BadInputError(f"say in words what the program is doing, not {words!r}")
        self.words = _cut(" ".join(words.split()))


class AgentLink:
    """This process's link to its agent: states and metrics out; the native side listens."""

    def __init__(self) -> None:
        self._native = _native.NodeLink.from_environment()
        self.bootstrap: dict[str, Any] = json.loads(self._native.bootstrap)
        self.payload: bytes = self._native.payload
        self._looks: list[Callable[[], None]] = []
        self._metrics: dict[str, Any] = {}
        self._of_keras: dict[str, Any] = {}
        self._leaves_out_unknown = False
        self._state: dict[str, Any] = {}
        self._by_itself = ""  # what was said without a line of the program's
        self._by_program: list[_Doing] = []  # what the program says, the latest last
        self._doing = ""  # what was told of both
        self._collectives = collectives.Recent()
        self._lock = threading.Lock()  # of the eight above
        threading.Thread(target=self._look_again, name="tfos rates", daemon=True).start()

    @property
    def native(self) -> Any:
        """The extension's object, for a group that goes on without nodes that are lost."""
        return self._native

    def attach(self, server: Any) -> None:
        """Lets the native side end this feed server's feed and report its counters."""
        self._native.attach_feed_server(server)

    def send(self, message_type: str, **fields: Any) -> None:
        self._native.send(control_message.encode(message_type, **fields))

    def enter(self, state: str, detail: str = "", **fields: Any) -> None:
        """Says which state the node is in, and what it does there, for people."""
        with self._lock:
            self._state = {"state": state, "detail": detail, **fields}
            self._by_itself = self._doing = ""
            self.send("state", **self._state)
            self._tell_doing()

    def say(self, doing: str) -> None:
        """What the node does now, for people; "": what its state says."""
        with self._lock:
            self._by_itself = doing
            self._tell_doing()

    @contextlib.contextmanager
    def doing(self, words: str) -> Iterator[None]:
        """What the program does meanwhile. It counts more than what is said by itself."""
        said = _Doing(words)
        with self._lock:
            self._by_program.append(said)
            self._tell_doing()
        try:
            yield
        finally:
            with self._lock:
                self._by_program.remove(said)
                self._tell_doing()

    def _tell_doing(self) -> None:
        """Under the lock."""
        doing = self._by_program[-1].words if self._by_program else self._by_itself
        if self._state and doing != self._doing:
            self._doing = doing
            self.send("state", **self._state | ({"detail": doing} if doing else {}))

    def leaving(self) -> dict[int, str]:
        """Why, by the numbers of the nodes whose executors Spark is about to take away."""
        return self._native.leaving()

    def send_feed_terminated(self) -> None:
        self.send("feed_terminated")

    def report(self, metrics: dict[str, Any]) -> None:
        """All of ``metrics`` or, with an error, none: what was reported before stays as it is."""
        readable = {control_message.readable(name): value for name, value in metrics.items()}
        read = {name: _json_value(name, value) for name, value in readable.items()}
        with self._lock:
            if self._leaves_out_unknown:
                read = {name: value for name, value in read.items() if value != _NAN}
            grown = self._metrics | read
            if len(grown) > MOST_METRICS:
                new = sorted(grown.keys() - self._metrics.keys())
                raise BadInputError(
                    f"a node reports at most {MOST_METRICS} metrics, and {new[0]!r} would be one "
                    "more: report fewer names, such as the mean of a list instead of each element"
                )
            self._metrics = grown
            self._send_metrics()

    def leave_out_unknown(self, whether: bool) -> None:
        """Callbacks and histories have NaN for numbers of an epoch without rows. What the program
        reports of them keeps its last value: nothing has diverged."""
        with self._lock:
            self._leaves_out_unknown = whether

    def report_of_keras(self, metrics: dict[str, Any]) -> None:
        """What Keras says by itself. The program's own word, by the same name, is the one that
        counts; what can't be reported is left out."""
        readable = {}
        for name, value in metrics.items():
            try:
                readable[control_message.readable(name)] = _json_value(name, value)
            except BadInputError:
                continue
        with self._lock:
            self._of_keras |= readable
            self._send_metrics()

    def look_at_collectives(self) -> None:
        """Reports what its operations with other nodes take now. The program itself says nothing
        while it waits in one."""
        with self._lock:
            if self._collectives.look():
                self._send_metrics()

    def look_again(self, look: Callable[[], None]) -> None:
        """Has ``look`` called again and again, by a thread that goes on when the program does not.
        It may report something."""
        self._looks.append(look)

    def _look_again(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            for look in (self.look_at_collectives, *self._looks):
                try:
                    look()
                except Exception:  # A thread's boundary: numbers are worth less than the training.
                    logger.debug("could not look at what there is to report", exc_info=True)

    def metrics(self) -> dict[str, Any]:
        """What this node reports, its feed's and the program's, as it is now."""
        return json.loads(self._native.metrics())

    def _send_metrics(self) -> None:
        """Under the lock."""
        free = MOST_METRICS - len(self._metrics)
        by_itself = self._of_keras | self._collectives.look()
        added = [name for name in by_itself if name not in self._metrics][:free]
        self._native.set_metrics(
            json.dumps({name: by_itself[name] for name in added} | self._metrics)
        )


def _json_value(name: str, value: Any) -> int | float | str:
    """``value`` as JSON can say it: NumPy and TensorFlow scalars are numbers to the caller only,
    and JSON has no numbers for NaN and the infinities."""
    if not name:
        raise BadInputError("a metric needs a name that isn't empty")
    if len(name.encode()) > MOST_METRIC_BYTES:
        raise BadInputError(
            f"metric {name[:40]!r}...: a name has at most {MOST_METRIC_BYTES} bytes"
        )
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, int):
        return _nearest(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise BadInputError(f"metric {name!r}: a number or a text, not {kind}") from None
    return number if math.isfinite(number) else str(number)


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:MOST_METRIC_BYTES].decode("utf-8", "ignore")


def _nearest(value: int) -> float | str:
    """An integer beyond 64 bits: the messages hold the number next to it, if there is one."""
    try:
        return float(value)
    except OverflowError:
        return "inf" if value > 0 else "-inf"
