"""How feed tasks cut their rows into chunks, and what of a plan may be printed."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from types import SimpleNamespace

import pytest

from support.waiting import wait_for
from tfos.cluster.feed.cluster_feed import warn_of_speculation
from tfos.cluster.progress import Progress, describe, number
from tfos.feed.datafeed import FeedSource
from tfos.feed.plan import FeedPlan, Replay
from tfos.feed.tasks import _batches_by_bytes, _batches_by_feedback
from tfos.spark import jobs as spark_jobs
from tfos.spark.jobs import _ContextJobGroup


def nothing_delivered():
    """What a feeder says that is the first to feed its partition."""
    return False, 1 << 62


def test_what_was_delivered_is_gathered_as_it_was_cut():
    ahead = [(True, 40), (False, 3), (False, 1 << 62)]
    answers = iter(ahead)
    rows = list(range(70))
    cut = list(_batches_by_feedback(rows, 1, lambda: next(answers, ahead[-1]), lambda: 8))
    assert [len(chunk) for chunk in cut[:3]] == [40, 3, 1]
    assert list(chain.from_iterable(cut)) == rows
    batches = [bytes(100)] * 70
    answers = iter(ahead)
    cut = list(_batches_by_bytes(batches, 200, lambda: next(answers, ahead[-1])))
    assert [len(chunk) for chunk in cut[:3]] == [40, 2, 2]
    assert list(chain.from_iterable(cut)) == batches


def test_pickled_batches_are_passed_on_once_each_and_in_order():
    batches = [bytes([n]) * 100 for n in range(50)]
    counts = iter(range(1, 100))
    chunks = list(_batches_by_bytes(iter(batches), 1000, lambda: (False, next(counts))))
    assert list(chain.from_iterable(chunks)) == batches
    assert [len(chunk) for chunk in chunks] == [*range(1, 10), 5]
    chunks = list(_batches_by_bytes(iter(batches), 450, nothing_delivered))
    assert {len(chunk) for chunk in chunks} == {5}


def test_row_chunks_grow_to_the_size_asked_for_and_not_beyond():
    sizes = []

    def written():
        return sizes[-1]

    rows = []
    for chunk in _batches_by_feedback(range(100_000), 8 * 1000, nothing_delivered, written):
        rows += chunk
        sizes.append(8 * len(chunk))
    assert rows == list(range(100_000))
    assert sizes[0] == 8 * 16
    assert max(sizes) == 8 * 1000


def test_chunks_do_not_grow_while_rows_are_skipped():
    chunks = list(_batches_by_feedback(range(10_000), 1000, nothing_delivered, lambda: 0))
    assert list(chain.from_iterable(chunks)) == list(range(10_000))
    assert max(map(len, chunks)) == 16


@pytest.mark.parametrize(
    "large",
    [
        b"x" * 1000,
        "x" * 1000,
        bytearray(1000),
        (1, b"x" * 1000),
        [b"x" * 1000, 2],
        [0.0] * 125,
        ([0.0] * 125, 1),
        {"label": 1, "image": b"x" * 1000},
        memoryview(bytes(1000)),
    ],
    ids=lambda large: type(large).__name__,
)
def test_large_rows_after_many_tiny_ones_are_not_all_gathered(large):
    tiny = 1
    chunk_bytes = 10_000  # ten large rows

    def written(chunk):
        return sum(1000 if row is large else 1 for row in chunk)

    rows = [tiny] * 40_000 + [large] * 5_000
    most_large = 0
    for chunk in _batches_by_feedback(rows, chunk_bytes, nothing_delivered, lambda: written(last)):
        last = chunk
        most_large = max(most_large, sum(row is large for row in chunk))
    # Four chunks of them, and a block that was being gathered.
    assert most_large <= 4 * 10 + 128


def test_huge_rows_go_one_by_one():
    chunks = []
    for chunk in _batches_by_feedback(
        range(40), 10, nothing_delivered, lambda: 1000 * len(chunks[-1])
    ):
        chunks.append(chunk)
    assert [len(chunk) for chunk in chunks[1:]] == [1] * 24


def test_a_plan_does_not_show_its_keys():
    plan = FeedPlan(
        feed_key="f" * 64,
        ask_key="f" * 64,
        encrypt="auto",
        pickle=True,
        endpoints=[],
        coordinator=("h", 1),
        job_id=b"",
        queue="input",
        timeout=1,
        region_bytes=1,
        chunk_bytes=1,
        epoch=0,
        pickled=False,
        replay=Replay(),
    )
    assert "ffff" not in repr(plan)


#: What a node that is fed says of its feed.
LISTENING = {"socket": "tfos-x", "port": 40000}


def test_progress_shows_rows_states_and_the_programs_step(capsys):
    node = {
        "job_name": "worker",
        "task_index": 0,
        "state": "running",
        "feed": LISTENING,
        "metrics": {"rows": 1200, "feed_bytes": 10, "step": 3, "loss": 0.25},
    }
    assert describe(node) == "worker:0 running step=3 loss=0.2500"
    obeyed = {**node, "detail": "a\nb\x1b[2J\x9b2J"}
    assert describe(obeyed) == "worker:0 running (a b [2J 2J) step=3 loss=0.2500"
    Progress(True).show([node], "feeding")
    assert "1,200 rows read" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [7, "many"])
def test_progress_takes_rows_that_a_program_reports_for_no_rows_of_a_feed(capsys, rows):
    node = {"job_name": "worker", "task_index": 0, "state": "running", "metrics": {"rows": rows}}
    Progress(True).show([node], "running")
    assert "rows read" not in capsys.readouterr().err


def test_progress_shows_which_of_several_nodes_is_slow(capsys):
    def node(index, rows, queued):
        return {
            "job_name": "worker",
            "task_index": index,
            "state": "running",
            "feed": LISTENING,
            "metrics": {"rows": rows, "feed_queued_bytes": queued, "feed_memory_bytes": 32e6},
            "rates": {"rows": rows / 10},
        }

    Progress(True).show([node(0, 900, 0), node(1, 100, 30e6)], "feeding")
    line = capsys.readouterr().err
    assert "1,000 rows read" in line
    fast, slow = line.split(" | ")[-2:]
    assert fast.startswith("worker:0 running (")
    assert fast.endswith("(90 rows/s, queue 0.0 MB)")
    assert slow.startswith("worker:1 running (")
    assert slow.strip().endswith("(10 rows/s, queue 30.0 MB)")


def test_the_last_progress_line_has_no_rate_of_a_moment(capsys):
    def node(index, rows):
        return {
            "job_name": "worker",
            "task_index": index,
            "state": "done",
            "feed": LISTENING,
            "metrics": {"rows": rows, "feed_bytes": 1e9},
            "rates": {"rows": 5.0, "feed_bytes": 1e9},
        }

    progress = Progress(True)
    progress.show([node(0, 1), node(1, 1)], "feeding")
    assert capsys.readouterr().err.count("rows/s") == 2
    progress.show([node(0, 900), node(1, 100)], "ended", last=True)
    line = capsys.readouterr().err
    assert "1,000 rows read | " in line and "/s" not in line


class Tracker:
    """A SparkContext's, with what it is asked."""

    def __init__(self, jobs, stages):
        self.jobs = jobs
        self.stages = stages
        self.asked = []
        context = SimpleNamespace(statusTracker=lambda: self)
        self.group = _ContextJobGroup(context, "feed-0")

    def getJobIdsForGroup(self, group):
        self.asked.append(group)
        return random.sample(list(self.jobs), len(self.jobs))

    def getJobInfo(self, number):
        self.asked.append(number)
        stages = self.jobs[number]
        return stages and SimpleNamespace(stageIds=random.sample(stages, len(stages)))

    def getStageInfo(self, number):
        self.asked.append(number)
        if number not in self.stages:
            return None
        done, tasks = self.stages[number]
        return SimpleNamespace(numCompletedTasks=done, numTasks=tasks)


def test_of_a_job_that_feeds_only_the_stage_that_feeds_counts():
    # A shuffle that is over, one that was over before, and the stage that feeds.
    tracker = Tracker({3: [4], 5: [6, 7, 8]}, {4: (10, 10), 6: (0, 100), 7: (20, 20), 8: (3, 4)})
    assert tracker.group.share_done() == 0.75
    assert tracker.asked == ["feed-0", 5, 8], "each question is a call to the JVM"


def test_the_thread_that_waits_does_not_ask_spark(monkeypatch):
    """While it calls the JVM, Spark's handler of Ctrl-C can't."""
    threads = set()

    def share_done():
        threads.add(threading.current_thread())
        return 0.25

    group = SimpleNamespace(begin=lambda description: None, end=lambda: None, share_done=share_done)
    monkeypatch.setattr(spark_jobs, "_job_group", lambda sc, name: group)
    over = threading.Event()
    job = spark_jobs.SparkJob(None, "feed-0", "a job", over.wait, lambda job: None)
    try:
        wait_for(lambda: job.share_done() == 0.25, "the share")
    finally:
        over.set()
    assert job.result() and threading.current_thread() not in threads


def test_what_spark_does_not_know_of_a_job_was_not_fed():
    tracker = Tracker({}, {})
    assert tracker.group.share_done() == 0, "it is planned"
    tracker.jobs[2] = None
    assert tracker.group.share_done() == 0
    tracker.jobs[2] = []
    assert tracker.group.share_done() == 0
    tracker.jobs[2] = [5]
    assert tracker.group.share_done() == 0
    tracker.stages[5] = (0, 0)
    assert tracker.group.share_done() == 0


@pytest.mark.parametrize("speculation", ["true", "false"])
def test_speculation_is_warned_of(caplog, speculation):
    warn_of_speculation(SimpleNamespace(getConf=lambda: {"spark.speculation": speculation}))
    assert ("spark.speculation is on" in caplog.text) == (speculation == "true")


def test_progress_can_be_turned_off(capsys):
    Progress(False).show([], "feeding")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567, "1234567"),
        (2**62, str(2**62)),
        (1234567.0, "1234567"),
        (0.25, "0.2500"),
        (0.00002, "2e-05"),
        (-0.0005, "-0.0005"),
        (0.0, "0"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
        ("nan", "nan"),
    ],
)
def test_numbers_are_shown_as_people_read_them(value, shown):
    assert number(value) == shown


def test_progress_lines_of_several_threads_are_whole():
    class Stream:
        """Says when two threads write at a time."""

        def __init__(self):
            self.entered = threading.Event()
            self.go_on = threading.Event()
            self.written = []

        def isatty(self):
            return False

        def write(self, text):
            self.entered.set()
            assert self.go_on.wait(60)
            self.written.append((threading.current_thread().name, text))

        def flush(self):
            pass

    stream = Stream()
    progress = Progress(True, stream=stream)
    first = threading.Thread(target=progress.say, args=["one"], name="first")
    first.start()
    assert stream.entered.wait(60)
    second = threading.Thread(target=progress.say, args=["two"], name="second")
    second.start()
    assert progress._lock.locked()
    stream.go_on.set()
    first.join(60)
    second.join(60)
    assert [name for name, _ in stream.written] == ["first"] * 2 + ["second"] * 2


def test_threads_share_one_reader_of_a_queue():
    came = threading.Event()

    class Door:
        """The source's lock, which tells when a thread finds another one inside."""

        def __init__(self):
            self._lock = threading.Lock()

        def __enter__(self):
            if not self._lock.acquire(blocking=False):
                came.set()
                self._lock.acquire()

        def __exit__(self, *_):
            self._lock.release()

    class Server:
        """Makes a reader as long as it takes another thread to come, to the lock or past it."""

        def __init__(self):
            self.made = 0

        def reader(self, queue):
            self.made += 1
            if self.made > 1:
                came.set()
            assert came.wait(60)
            return object()

        batch_source = reader

    for kind in ("reader", "batch_source"):
        came.clear()
        source = FeedSource(Server(), link=None, queues=["input"])
        source._lock = Door()
        with ThreadPoolExecutor(2) as threads:
            made = list(threads.map(getattr(source, kind), ["input"] * 2))
        assert source.server.made == 1 and made[0] is made[1]
