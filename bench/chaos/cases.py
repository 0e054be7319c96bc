"""The kinds of work, what of them fails, what tfos promises then, and whether it was kept."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import random
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import chaos_programs as programs
import nemesis
from nemesis import Failure, Injected, Nemesis

#: Nodes are numbered from the parameter servers on.
NODES = 3
#: How long nodes read in a case, so that there is time for failures.
_READING_SECONDS = 8


@dataclasses.dataclass(frozen=True)
class Kind:
    """``survives``: how many nodes it may lose, or "replaced" where others come in their place.
    ``spared``: nodes that may not be lost. ``epochs``: which of the rows may be chosen."""

    program: Any
    options: dict[str, Any]
    survives: int | str = 0
    spared: tuple[int, ...] = ()
    epochs: tuple[int, ...] = (1,)
    nodes: tuple[int, ...] = (0, 1, 2)


KINDS = {
    "fed": Kind(programs.fed, {"nodes": (2, 3)}, survives=1, epochs=(1, 2, 3)),
    "reading": Kind(
        programs.reading,
        {"nodes": (2, 3), "input_mode": "tensorflow"},
        survives="replaced",
        epochs=(2, 3),
    ),
    "asynchronous": Kind(
        programs.asynchronous,
        {"nodes": NODES, "parameter_servers": 1, "max_lost_nodes": 1},
        survives=1,
        spared=(0, 1),
    ),
    "inference": Kind(programs.answering, {"nodes": NODES}),
    "cached": Kind(programs.counting, {"nodes": NODES}, epochs=(2, 3)),
    "streaming": Kind(
        programs.following, {"nodes": NODES, "max_lost_nodes": 1}, survives=1, spared=(0,)
    ),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """All that is chosen of a case."""

    kind: str
    seed: int
    rows: int
    batch: int
    partitions: int
    epochs: int
    memory: str
    as_frame: bool
    groups: tuple[str, ...]
    failures: tuple[Failure, ...]

    @property
    def all_rows(self) -> int:
        """How many are read if nothing fails."""
        return self.rows * self.epochs * (NODES if self.kind == "reading" else 1)

    def may_fail(self, injected: list[Injected]) -> bool:
        """Whether the promise is an error that names the cause, or an end as if nothing was."""
        kind = KINDS[self.kind]
        whats = {one.failure.what for one in injected}
        if whats & nemesis.DEADLY or any(nemesis.FAILURES[what].seen for what in whats):
            return True
        lost = {node for one in injected for node in one.lost}
        if lost.intersection(kind.spared):
            return True
        return kind.survives != "replaced" and len(lost) > int(kind.survives)

    def __str__(self) -> str:
        how = "DataFrame" if self.as_frame or self.kind == "streaming" else "RDD"
        failures = ", then ".join(map(str, self.failures)) or "nothing"
        return (
            f"{self.kind}, seed {self.seed}: {self.rows} rows x {self.epochs}, batches of "
            f"{self.batch}, {self.partitions} partitions, {how}, {self.memory}; planned: {failures}"
        )


def case_of(kind: str, seed: int, groups: Sequence[str]) -> Case:
    """The same for the same kind, seed and groups of failures."""
    whats = [what for group in groups for what in nemesis.GROUPS[group]]
    chance = random.Random(f"{kind} {seed}")
    nodes, epochs = KINDS[kind].nodes, chance.choice(KINDS[kind].epochs)
    rows, batch = chance.choice([600, 1500, 3000]), chance.choice([8, 16])
    read = rows * epochs * (NODES if kind == "reading" else 1)
    moments = sorted(chance.randrange(1, read) for _ in range(chance.choice([0, 1, 1, 1, 2])))
    failures = tuple(
        Failure(chance.choice(whats), chance.choice(nodes), moment) for moment in moments
    )
    return Case(
        kind,
        seed,
        rows,
        batch,
        partitions=chance.choice([1, 2, 6, 13]),
        epochs=epochs,
        memory=chance.choice(["256m", "64k"]),
        as_frame=kind == "fed" and chance.choice([True, False]),
        groups=tuple(groups),
        failures=failures,
    )


@dataclasses.dataclass
class Outcome:
    """``faults``: what was not as promised, one text each."""

    ended: str
    seconds: float
    injected: list[str]
    rows: str
    faults: list[str]


def run(spark, case: Case, site: nemesis.Site) -> Outcome:
    """Runs a case to its end, and checks it."""
    import tfos

    kind = KINDS[case.kind]
    begin = time.monotonic()
    error: Exception | None = None
    results: list[int] | None = None
    with tempfile.TemporaryDirectory(prefix="tfos-chaos-") as directory:
        arguments = {
            "directory": directory,
            "pause": _READING_SECONDS * NODES * case.batch / case.all_rows,
            "rows": case.rows,
            "batch": case.batch,
            "epochs": case.epochs,
        }
        cluster = tfos.run(
            spark,
            kind.program,
            args=arguments,
            feed_memory=case.memory,
            node_answer_timeout=nemesis.ANSWER_TIMEOUT,
            **kind.options,
        )
        with Nemesis(cluster, list(case.failures), directory, site) as injected:
            try:
                with cluster:
                    results = _work(spark, cluster, case, directory)
            except Exception as raised:  # Checked below.
                error = raised
        seconds = time.monotonic() - begin
        given = programs.ids_in_epochs(directory)
        weights = {path.read_text() for path in pathlib.Path(directory).glob("weights-*")}
    faults = list(_faults_of_end(case, error, injected))
    if injected.error is not None:
        faults.append(f"the nemesis itself has failed: {injected.error!r}")
    if len(weights) > 1:
        faults.append(f"nodes that trained together end with {len(weights)} different weights")
    states = {node.node_id: node for node in cluster.status()}
    if error is None:
        faults += _faults_of_rows(case, cluster, states, given, results, injected)
    ended = "finished" if error is None else f"failed: {_first_line(error)}"
    read = sum(len(ids) for epochs in given.values() for ids in epochs.values())
    return Outcome(
        ended,
        seconds,
        [str(one.failure) for one in injected.done],
        f"{read} read of {case.all_rows}",
        faults,
    )


def _work(spark, cluster, case: Case, directory: str) -> list[int] | None:
    """What inference has answered."""
    if case.kind == "reading":
        cluster.wait()
        return None
    if case.kind == "streaming":
        _feed_stream(spark, cluster, case, pathlib.Path(directory, "stream"))
        return None
    if case.as_frame:
        cluster.train(spark.range(0, case.rows, 1, case.partitions), epochs=case.epochs)
        return None
    rows = spark.sparkContext.parallelize(range(case.rows), case.partitions)
    if case.kind == "fed":
        cluster.train(rows.map(lambda n: {"id": n}), epochs=case.epochs)
    elif case.kind == "inference":
        return cluster.inference(rows.map(int)).collect()
    elif case.kind == "cached":
        cluster.train(rows.map(int), epochs=case.epochs, cache="memory")
    else:
        cluster.train(rows.map(int), epochs=case.epochs)
    return None


def _feed_stream(spark, cluster, case: Case, directory: pathlib.Path) -> None:
    """Feeds rows from files, some of which come in each of as many intervals as the case has
    partitions."""
    files, state = str(directory / "files"), str(directory / "state")
    spark.range(0, case.rows, 1, NODES * case.partitions).write.json(files)
    errors: list[Exception] = []

    def feed(frame, _interval):
        try:
            cluster.train(frame)
        except Exception as error:  # Spark's own would hide it.
            errors.append(error)
            raise

    stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", NODES).json(files)
    writer = stream.writeStream.option("checkpointLocation", state).foreachBatch(feed)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception:
        if errors:
            raise errors[0] from None
        raise
    finally:
        query.stop()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"


def _faults_of_end(case: Case, error, injected: Nemesis):
    """Whether it ended as promised."""
    from tfos.errors import TfosError

    if error is None:
        return
    if not injected.done:
        yield f"nothing was injected, and it failed: {_first_line(error)}"
        return
    if not case.may_fail(injected.done):
        yield f"it was to go on, and failed: {_first_line(error)}"
    if not isinstance(error, TfosError):
        yield f"the error is not one of tfos: {_first_line(error)}"
    names = {name for one in injected.done for name in one.names}
    if not any(name in str(error) for name in names):
        yield f"the error names none of {sorted(names)}: {error}"


def _faults_of_rows(case: Case, cluster, states, given, results, injected: Nemesis):
    """Which rows are not as promised, where the case has finished."""
    ledger = cluster.ledger()
    lost = {node for node, status in states.items() if status.state == "lost"}
    processes = collections.Counter(node for node, _ in given)
    # What a lost node, or an earlier process of a node, has read is `gone`.
    done, gone = [], []
    for (node, pid), epochs in given.items():
        # Another one may have come in its place, and have ended before it had a program.
        is_last = processes[node] == 1 and states[node].name not in ledger.lost
        stays = node not in lost and (is_last or (processes[node] > 1 and states[node].pid == pid))
        (done if stays else gone).append(epochs)
    everything = set(range(case.rows))
    executor_died = any("executor" in one.failure.what for one in injected.done)
    if case.kind == "inference":
        if results != [2 * n for n in range(case.rows)]:
            yield f"{len(results or [])} results, and not the doubles of all rows in order"
        return
    if case.kind == "reading":
        for (node, _), epochs in given.items():
            if processes[node] > 1 or states[node].state != "done":
                continue
            own = list(range(node * case.rows, (node + 1) * case.rows))
            for number in range(case.epochs):
                if (ids := epochs.get(number, [])) != own:
                    yield f"node {node} read {len(ids)} rows of {len(own)} in epoch {number}"
        return
    unread = sum(
        max(0, count.get("left", 0)) for name, count in ledger.nodes.items() if name in ledger.lost
    )
    if case.kind == "fed":
        for epoch in range(case.epochs):
            others = _counted({epoch: epochs.get(epoch, [])} for epochs in done)
            before = _counted({epoch: epochs.get(epoch, [])} for epochs in gone)
            if twice := [n for n, count in others.items() if count > 1]:
                yield f"epoch {epoch}: nodes that are left share {len(twice)} rows, {twice[:5]} ..."
            missing = everything - others.keys() - before.keys()
            if len(missing) > unread:
                yield (
                    f"epoch {epoch}: {len(missing)} rows miss, {sorted(missing)[:5]} ..., and the "
                    f"ledger shows {unread} that a lost node had left"
                )
        if not lost and ledger.complaint():
            yield f"the ledger: {ledger.complaint()}"
        return
    counts = _counted(given.values())
    expected = case.epochs
    missing = [n for n in everything if counts[n] < expected]
    if len(missing) > (case.batch if lost else 0):
        yield f"{len(missing)} rows miss, {missing[:5]} ..."
    again = [n for n in everything if counts[n] > expected]
    if again and not (lost and executor_died):
        yield f"{len(again)} rows were read more than {expected} times, {again[:5]} ..."


def _counted(nodes) -> collections.Counter:
    return collections.Counter(n for epochs in nodes for ids in epochs.values() for n in ids)
