"""How long the program of this node waits for its own dataset (tf.data), for a profile.

Python's frames can't tell: in Keras, the batch is taken inside the graph of a step. TensorFlow's
own profiler has an event for each batch that is taken, so it runs for a short while. It is asked
for as little as it can write, but that is still all operations. So the first look is short, and the
length of the next ones follows from what it wrote. A program that profiles itself goes first, or
waits until the look is over.

Nothing is imported here while a profile runs. While the program imports TensorFlow on its thread, a
second import of a part of it finds modules half made, and may make the program's import fail. So
nothing is looked at before TensorFlow is whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

#: The only events that are read: TensorFlow's kernels that take a batch, for as long as they take.
_TAKES = re.compile(
    rb"\x1a.IteratorGetNext\w*Op::DoCompute"  # TraceEvent.name
    rb"(?:\x20[\x80-\xff]*[\x00-\x7f])?(?:\x28[\x80-\xff]*[\x00-\x7f])?"  # .group_id and others
    rb"(?:\x48([\x80-\xff]*[\x00-\x7f]))?"  # .timestamp_ps
    rb"(?:\x50([\x80-\xff]*[\x00-\x7f]))?",  # .duration_ps
    re.DOTALL,
)
_TENSORFLOW = "tensorflow"
_PROFILER = "tensorflow.python.profiler.profiler_v2"
_SESSIONS = "tensorflow.python.profiler.internal._pywrap_profiler"
_OPTIONS = {"host_tracer_level": 1, "device_tracer_level": 0, "python_tracer_level": 0}

#: Seconds of a look: the first one, and the shortest and longest of those after it.
_FIRST, _SHORTEST, _LONGEST = 0.02, 0.005, 1.0
#: A look goes on for that long while the program has made fewer than so many steps.
_LONGEST_FOR_STEPS, _STEPS = 5.0, 3
#: What a look is to write, and what one that goes on for more steps may.
_BYTES, _MOST_BYTES = 1 << 20, 4 << 20
#: How much longer than the look before it a look may be.
_MOST_GROWTH = 8
#: Seconds between two looks at the number of steps.
_LOOK_AGAIN = 0.05
#: No more looks when so many seconds have been seen in a profile, or after so many looks.
_ENOUGH, _MOST_LOOKS = 1.5, 10
#: Between two looks: this many times what it took to read the last one.
_PAUSE = 4.0
#: A profile asks second by second. It is over when nobody has asked for that long.
_NEXT_ASK, _LONGEST_ASK = 1.0, 15.0
#: How long an answer waits for a look to be read.
_PATIENCE = 1.0


@dataclasses.dataclass
class Seen:
    """Of some looks. `seconds` is from the end of a look's first batch to that of its last one."""

    waited: float = 0.0
    seconds: float = 0.0


def read(trace: bytes) -> Seen:
    """What a trace (TensorFlow's `Trace`, serialized) has of batches. Several that are taken at the
    same time count once. A batch of which the trace has only a part isn't in it."""
    takes = []
    for match in _TAKES.finditer(trace):
        begin = _number(match[1])
        takes.append((begin, begin + _number(match[2])))
    if len(takes) < 2:
        return Seen()
    first, last = (choose(end for _, end in takes) for choose in (min, max))
    waited, until = 0, first
    for begin, end in sorted(takes):
        waited += max(0, end - max(begin, until))
        until = max(until, end)
    return Seen(waited / 1e12, (last - first) / 1e12)


def _number(varint: bytes | None) -> int:
    return sum((byte & 0x7F) << (7 * at) for at, byte in enumerate(varint or b""))


class DatasetWaits:
    """Looks at the program while somebody profiles it, on a thread of its own.

    `steps` returns how many steps the program has made, or None.
    """

    def __init__(self, steps: Callable[[], float | None]) -> None:
        self._steps = steps
        self._changed = threading.Condition()
        self._seen = Seen()  # Since the process began.
        self._asked_until = 0.0  # Nobody asks any more after it.
        self._begun = False  # The looks of this profile have.
        self._thread: threading.Thread | None = None
        self._looking = False
        self._to_read = False

    def begin(self) -> None:
        """A piece of a profile begins."""
        with self._changed:
            now = time.monotonic()
            goes_on = self._begun and now < self._asked_until
            self._asked_until = now + _LONGEST_ASK
            alive = self._thread is not None and self._thread.is_alive()
            self._begun = goes_on or alive or _imported(_TENSORFLOW) is not None
            if goes_on or alive or not self._begun:
                return
            self._thread = threading.Thread(
                target=self._run, name="tfos-dataset-waits", daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        """A piece is over. A look that has seen its steps is read, as it may be the last."""
        with self._changed:
            self._asked_until = time.monotonic() + _NEXT_ASK
            self._to_read = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not (self._looking and self._to_read), _PATIENCE)
            self._to_read = False

    def counters(self) -> dict[str, float]:
        """What was seen since the process began."""
        with self._changed:
            return {
                "dataset_wait_seconds": self._seen.waited,
                "dataset_watched_seconds": self._seen.seconds,
            }

    def _run(self) -> None:
        try:
            self._look_often()
        except Exception:  # Of whatever TensorFlow this is: a profile goes on without it.
            logging.getLogger(__name__).debug("TensorFlow's profiler does not run", exc_info=True)
        finally:
            with self._changed:
                self._looking = False
                self._changed.notify_all()

    def _look_often(self) -> None:
        length, longest, seen, rate = _FIRST, _FIRST, 0.0, 1.0
        for _ in range(_MOST_LOOKS):
            trace, took, read_in = self._look(length, longest)
            of_look = read(trace)
            with self._changed:
                self._seen.waited += of_look.waited
                self._seen.seconds += of_look.seconds
                self._looking = False
                self._changed.notify_all()
            seen += of_look.seconds
            # The largest so far: one look at a pause of the program tells nothing of the next one.
            rate = max(rate, len(trace) / max(took, 1e-3))
            # And a short one tells little of a long one: the program may have paused for it.
            length = min(_LONGEST, _MOST_GROWTH * length, max(_SHORTEST, _BYTES / rate))
            most = min(_LONGEST_FOR_STEPS, _MOST_GROWTH * longest, _MOST_BYTES / rate)
            longest = max(length, most)
            if seen >= _ENOUGH or not self._pause(_PAUSE * read_in):
                return

    def _look(self, length: float, longest: float) -> tuple[bytes, float, float]:
        """The trace, how long it is of, and how long it took to get it. Raises where another
        profiler runs."""
        with _alone():
            session = _part(_SESSIONS).ProfilerSession()
            with self._changed:
                self._looking = True
            begin = time.monotonic()
            session.start("", _OPTIONS)
            try:
                self._wait(begin, length, longest)
            finally:
                end = time.monotonic()
                trace = session.stop()
            return trace, end - begin, time.monotonic() - end

    def _wait(self, begin: float, length: float, longest: float) -> None:
        first = self._steps()
        with self._changed:
            while (now := time.monotonic()) < self._asked_until and now < begin + longest:
                steps = self._steps() if first is not None else None
                few = steps is not None and first is not None and steps < first + _STEPS
                if not few and (now >= begin + length or self._to_read):
                    return
                if few and self._to_read:  # It goes on into the next piece.
                    self._to_read = False
                    self._changed.notify_all()
                left = begin + length - now
                self._changed.wait(max(0.001, left) if 0 < left < _LOOK_AGAIN else _LOOK_AGAIN)

    def _pause(self, seconds: float) -> bool:
        """False where nobody asks any more."""
        end = time.monotonic() + seconds
        with self._changed:
            while (now := time.monotonic()) < min(end, self._asked_until):
                self._changed.wait(end - now)
            return time.monotonic() < self._asked_until


def _imported(name: str) -> ModuleType | None:
    """The module, if the program has imported it to its end."""
    module = sys.modules.get(name)
    # As the interpreter tells it: TensorFlow has no word for it, and its names come one by one.
    initializing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if initializing else module


def _part(name: str) -> Any:
    """A module that TensorFlow imports by itself."""
    module = _imported(name)
    if module is None:
        raise RuntimeError(f"this TensorFlow has no {name}")
    return module


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """With the lock of TensorFlow's profiler. A program that starts it meanwhile waits for the
    lock, and does not fail because one runs already."""
    profiler = _part(_PROFILER)
    with profiler._profiler_lock:
        if profiler._profiler is not None:
            raise RuntimeError("the program runs TensorFlow's profiler itself")
        yield
