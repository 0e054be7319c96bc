"""Members of a cluster whose ports silent_connections.py attacks, and what they note."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable

#: Of a node that trains in step: between two steps.
_PAUSE_SECONDS = 0.005
_BATCH = 500
#: A worker comes to the parameter server after so many batches.
_BATCHES_BETWEEN_WORKERS = 20


class _Notes:
    """What a node notes: a line of JSON for each step, with when it ended."""

    def __init__(self, ctx):
        path = pathlib.Path(ctx.args["directory"], f"notes-{ctx.node_id}-{os.getpid()}")
        self._file = open(path, "w")

    def write(self, **numbers):
        print(json.dumps({"at": time.monotonic(), **numbers}), file=self._file, flush=True)


def work(ctx):
    """Reads rows, and exchanges with the parameter server after each batch. A worker of another
    host, as far as the server can tell, comes now and then."""
    import numpy as np

    from tfos import parameter_server
    from tfos.parameter_server import connection

    notes = _Notes(ctx)
    over = pathlib.Path(ctx.args["directory"], "over")
    values = [np.zeros(10_000, np.float32)]
    servers = connection.servers_of(ctx._bootstrap["nodes"], "of another host", encrypt="true")
    newcomer = connection.Worker(10 + ctx.node_id, "a newcomer", starts=False, workers=ctx.size)
    key = ctx._bootstrap["keys"]["parameters"]
    batches = 0
    with ctx.parameter_server(values, sync_interval=1, overlap=False) as server:
        while not ctx.feed.should_stop() and not over.exists():
            rows = ctx.feed.next_batch(_BATCH)
            begun = time.monotonic()
            values[0] += 1
            server.step()
            numbers = {"rows": len(rows), "exchange": time.monotonic() - begun}
            batches += 1
            if batches % _BATCHES_BETWEEN_WORKERS == 0:
                begun = time.monotonic()
                far = [np.zeros_like(array) for array in values]
                with parameter_server.ParameterServer(far, servers, newcomer, key):
                    numbers["comes"] = time.monotonic() - begun
            notes.write(**numbers)
    ctx.feed.terminate()


def train_in_steps(ctx):
    """Adds numbers with the others, step by step."""
    import numpy as np

    import tfos
    from tfos import collective

    notes = _Notes(ctx)
    over = pathlib.Path(ctx.args["directory"], "over")
    with tfos.elastic.State(step=0, over=False) as state:
        while not state.over:
            begun = time.monotonic()
            wants = np.array([over.exists()], np.float32)
            _, ended = collective.all_reduce([np.ones(10_000, np.float32), wants], "sum")
            notes.write(step=time.monotonic() - begun, size=collective.size())
            state.step += 1
            state.over = bool(np.asarray(ended)[0] > 0)
            time.sleep(_PAUSE_SECONDS)
            state.commit()


def _notes_in(path: pathlib.Path) -> list[dict[str, float]]:
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def recovery(directory: pathlib.Path, lost: int, nodes: int, at: float) -> dict[str, float] | None:
    """How long the others took for their next step after a node was lost, and all of them for one
    with it; None as long as not all have made one."""
    next_steps, again = [], []
    for node in range(nodes):
        notes = [n for path in directory.glob(f"notes-{node}-*") for n in _notes_in(path)]
        after = sorted((n["at"], n["size"]) for n in notes if n["at"] > at)
        fewer = [when for when, size in after if size < nodes]
        complete = [when for when, size in after if size == nodes and fewer and when > fewer[0]]
        if node == lost:
            complete = [when for when, _ in after]
        elif fewer:
            next_steps.append(fewer[0] - at)
        if complete:
            again.append(complete[0] - at)
    if len(again) < nodes or len(next_steps) < nodes - 1:
        return None
    return {"the others' next step, s": max(next_steps), "all train again, s": max(again)}


def _shown(name: str, seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {
        f"{name}, median, ms": 1e3 * statistics.median(seconds),
        f"{name}, longest, ms": 1e3 * max(seconds),
    }


def read_notes(directory: pathlib.Path, begin: float, end: float) -> dict[str, float]:
    """The nodes' numbers between two times."""
    notes = []
    for path in directory.glob("notes-*"):
        notes += _notes_in(path)
    notes = [note for note in notes if begin <= note["at"] < end]
    found: dict[str, float] = {}
    if any("rows" in note for note in notes):
        found["rows/s"] = sum(note.get("rows", 0) for note in notes) / (end - begin)
    for key, name in (
        ("exchange", "push and pull"),
        ("comes", "a worker that comes"),
        ("step", "a step"),
    ):
        found |= _shown(name, [note[key] for note in notes if key in note])
    return found


class _Repeated:
    """Does something over and over in a thread of its own, in a `with` block."""

    def __init__(self, pause: float, *actions: Callable[[], None]):
        self._enough = threading.Event()
        self._pause = pause
        self._threads = [
            threading.Thread(target=self._repeat, args=(action,), daemon=True) for action in actions
        ]

    def _repeat(self, action: Callable[[], None]) -> None:
        while not self._enough.wait(self._pause):
            action()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()


class Asks(_Repeated):
    """Asks a coordinator for the state of its nodes: over one connection that stays, and over a new
    one each time. Threads: one for each of the two."""

    def __init__(self, url: str, header: dict[str, str], pause: float):
        super().__init__(pause, self._ask, self._come)
        address = urllib.parse.urlsplit(url)
        self._host, self._path, self._header = address.netloc, address.path, header
        self._stays = http.client.HTTPConnection(self._host, timeout=120)
        self._answers: list[tuple[float, float]] = []
        self._comers: list[tuple[float, float]] = []
        self._beats: dict[str, list[float]] = {}
        self._last: dict[str, object] = {}

    def status(self) -> dict:
        connection = http.client.HTTPConnection(self._host, timeout=120)
        try:
            return self._get(connection)
        finally:
            connection.close()

    def _get(self, connection: http.client.HTTPConnection) -> dict:
        connection.request("GET", self._path, headers=self._header)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body)
        return json.loads(body)

    def await_rows(self) -> None:
        """Until each node that is fed has read some."""
        while True:
            status = self.status()
            fed = [node for node in status["nodes"] if node["feed"] is not None]
            metrics = [status["metrics"].get(str(node["node_id"]), {}) for node in fed]
            if fed and all(numbers.get("rows", 0) > 0 for numbers in metrics):
                return
            time.sleep(1)

    def _ask(self) -> None:
        begun = time.monotonic()
        metrics = self._get(self._stays)["metrics"]
        now = time.monotonic()
        self._answers.append((now, now - begun))
        for node, numbers in metrics.items():
            # The time that a node has waited for rows grows from heartbeat to heartbeat.
            if numbers != self._last.get(node) and numbers.get("rows"):
                self._last[node] = numbers
                self._beats.setdefault(node, []).append(now)

    def _come(self) -> None:
        begun = time.monotonic()
        try:
            self.status()
        except (ConnectionError, http.client.HTTPException):
            self.status()  # It lost its place to a stranger that came later, and comes again.
        now = time.monotonic()
        self._comers.append((now, now - begun))

    def between(self, begin: float, end: float) -> dict[str, float]:
        answers = [took for at, took in self._answers if begin <= at < end]
        comers = [took for at, took in self._comers if begin <= at < end]
        gaps = [
            after - before
            for beats in self._beats.values()
            for before, after in zip(beats, beats[1:])
            if begin <= after < end
        ]
        return (
            _shown("an answer of the coordinator", answers)
            | _shown("the same over a new connection", comers)
            | _shown("between two heartbeats", gaps)
        )


class Keeper(_Repeated):
    """A keeper and its coordinator, and a client that asks it over and over."""

    def __init__(self, pause: float):
        from tfos.base import keys

        super().__init__(pause, self._ask)
        token = keys.new_token()
        start = {
            "protocol": 1,
            "cluster_id": "0123456789abcdef",
            "token": token,
            "encrypt": "auto",
            "bind_address": "127.0.0.1",
            "advertised_address": "127.0.0.1",
            "ports": "0",
            "roles": [{"job": "worker", "count": 1}],
            "service_jobs": [],
            "tensorboard_node": -1,
            "registration_timeout_ms": 600_000,
            "start_timeout_ms": 600_000,
            "heartbeat_interval_ms": 1000,
            "heartbeat_timeout_ms": 10_000,
            "max_lost_nodes": 0,
            "log_level": "WARNING",
        }
        bootstrap = {"start": start, "lease": 300, "ports": "0", "watch_pid": os.getpid()}
        done = subprocess.run(
            [sys.executable, "-m", "tfos.cluster.keeper"],
            input=json.dumps(bootstrap | {"executor": "0"}) + "\n",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self._said = json.loads(done.stdout)
        self._key = keys.key_for(token, "steer")
        self._times: list[tuple[float, float]] = []
        self.retries = 0

    @property
    def pid(self) -> int:
        import psutil

        return psutil.Process(self._said["pid"]).ppid()

    def _call(self, *lines: str) -> None:
        from tfos.cluster import connect, keeper

        address = ("127.0.0.1", self._said["keeper_port"])
        call = connect._asking(*address, keeper.PATH, self._key, self._said["certificate"])
        answer = json.loads(call(json.dumps({"lines": list(lines), "after": 0, "wait_ms": 0})))
        if "trouble" in answer:
            raise ConnectionError(answer["trouble"])

    def _ask(self) -> None:
        begun = time.monotonic()
        while True:
            try:
                self._call()
                break
            except ConnectionError:
                self.retries += 1
        now = time.monotonic()
        self._times.append((now, now - begun))

    def between(self, begin: float, end: float) -> dict[str, float]:
        return _shown("an answer", [took for at, took in self._times if begin <= at < end])

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._call(json.dumps({"type": "exit"}))
