"""How far the driver is with its epochs, without Spark and without a cluster."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfos.cluster.feed.cluster_feed import ClusterFeed
from tfos.cluster.feed.course import Course, activity_of
from tfos.cluster.feed.tally import Tally
from tfos.cluster.training import Training
from tfos.feed.plan import Replay
from tfos.settings import Settings


def test_how_much_will_be_fed_is_known_after_the_first_job():
    fed = [
        {
            "metrics": {"items_delivered": 30, "items_unread": 20, "items_replayed": 5},
            "metrics_before": [{"items_delivered": 40}],  # of one that was lost
        }
    ]
    course = Course.of(Training(4, Replay(), 0), fed)
    course.enter(0)
    course.begin_job()
    course.see(0.5)
    known = {"epochs": 4, "epochs_before": 0, "items_before": 55}
    assert activity_of([course]) == known | {"epoch": 1, "epoch_fed": 0.5, "items_planned": 0}
    course.count(100)
    course.enter(1)
    assert activity_of([course]) == known | {"epoch": 2, "epoch_fed": 0.0, "items_planned": 400}
    course.count(300)
    course.enter(4)
    assert activity_of([course]) == known | {"epoch": 4, "epoch_fed": 0.0, "items_planned": 400}
    replayed = Course.of(Training(1, Replay("memory", 2, 0), 0), [])
    replayed.enter(0)
    assert replayed.epochs == 3
    replayed.count(100)
    replayed.enter(1)
    assert (replayed.epoch, replayed.planned) == (3, 300)


def test_epochs_that_an_earlier_cluster_has_trained_count_as_done():
    course = Course.of(Training(2, Replay(), 0, done=3), [])
    known = {"epochs": 5, "epochs_before": 3, "items_before": 0}
    course.enter(0)
    shown = {"epoch": 4, "epoch_fed": 0.0, "items_planned": 0}
    assert activity_of([course]) == known | shown
    assert course.title() == "epoch 4 of 5" and course.done == 3 / 5
    course.count(100)
    course.enter(1)
    assert activity_of([course]) == known | shown | {"epoch": 5, "items_planned": 200}
    course.count(100)
    course.enter(2)
    assert (course.epoch, course.planned) == (5, 200)
    replayed = Course.of(Training(1, Replay("memory", 2, 0), 0, done=4), [])
    replayed.enter(0)
    assert (replayed.epoch, replayed.epochs) == (5, 7)
    replayed.count(100)
    replayed.enter(1)
    assert (replayed.epoch, replayed.planned) == (7, 300)


def test_a_shuffle_that_spark_ran_first_does_not_stay_counted_as_fed():
    """As Spark does for a DataFrame whose plan it adapts: it is a job of its own."""
    course = Course(jobs=1, epochs=1, epoch=1)
    course.begin_job()
    course.see(0.9)
    assert course.fed == 0.9
    course.see(0.8)
    assert course.fed == 0.8
    course.begin_job()
    course.see(0.1)
    assert course.fed == 0.8, "the job for validation comes after the other"


def course(done, epochs, **fields):
    """With that many epochs done."""
    return Course(epochs, epochs, epoch=int(done) + 1, fed=done % 1, **fields)


@pytest.mark.parametrize("fast_is_first", [True, False])
def test_of_calls_that_go_on_at_once_the_epoch_is_that_of_the_one_behind(fast_is_first):
    fast, slow = course(1.75, 2, begun=7, planned=20), course(1.5, 5, begun=7, planned=30)
    both = [fast, slow] if fast_is_first else [slow, fast]
    shown = {
        "epoch": 2,
        "epochs": 5,
        "epochs_before": 0,
        "epoch_fed": 0.5,
        "items_before": 7,
        "items_planned": 50,
    }
    assert activity_of(both) == shown
    slow.planned = 0
    assert activity_of(both)["items_planned"] == 0, "not known of one, so not of all"
    slow.end()
    assert activity_of(both) == shown | {"epochs": 2, "epoch_fed": 0.75, "items_planned": 20}


def test_nobody_knows_how_much_will_come_of_a_stream():
    calls = [Course(), course(1.5, 5, begun=7, planned=30)]
    assert activity_of(calls)["items_planned"] == 0
    assert activity_of(calls)["epoch"] == 2
    assert activity_of(calls[:1]) == activity_of([])


def test_a_call_after_a_stream_is_shown_as_if_there_had_been_none():
    tally = Tally(SimpleNamespace(nodes=list))
    tally.course_of_stream()
    for _ in range(2):
        with tally.course_of(Training(2, Replay(), 0)) as course:
            course.enter(0)
            course.count(50)
            course.enter(1)
            assert tally.counts()["items_planned"] == 100


class Coordinator:
    """Has one node, which takes rows. Spark's jobs have ended once `meanwhile` was done."""

    address, port = "127.0.0.1", 1

    def __init__(self):
        self.meanwhile = []  # at each wait for a job

    def nodes(self):
        return [
            {
                "node_id": 0,
                "job_name": "worker",
                "task_index": 0,
                "state": "running",
                "rank": 0,
                "executor_id": "0",
                "address": "127.0.0.1",
                "feed": {"port": 1, "socket": ""},
                "metrics": {},
            }
        ]

    def terminated_nodes(self):
        return set()

    def send(self, kind, **fields):
        pass

    def notify(self):
        pass

    def wait(self, condition, timeout, while_waiting=None):
        if condition():
            return True
        while_waiting()
        meanwhile = self.meanwhile.pop(0) if self.meanwhile else lambda: None
        meanwhile()
        while_waiting()
        Jobs.running.pop().run()
        return condition()


class Jobs:
    """Spark's, of which each has done the same share until it ends."""

    spark_context = SimpleNamespace(appName="test")
    running = []

    def start(self, kind, doing, action, on_done):
        job = SimpleNamespace(done=False, error=None, share_done=lambda: 0.75)

        def run():
            job.result = lambda: result
            result, job.done = action(), True

        job.run = run
        self.running.append(job)
        return job


class Rows:
    """An RDD of so many rows."""

    def __init__(self, count):
        self.count = count

    def getNumPartitions(self):
        return 1

    def mapPartitionsWithIndex(self, feeder):
        return SimpleNamespace(collect=lambda: [(self.count, 0)])


def test_two_queues_that_are_fed_at_once_have_a_course_each():
    coordinator, shown = Coordinator(), []
    settings = Settings.resolve(
        lambda key: None, {"feed_pickle": False, "feed_check_retries": False}
    )
    feed = ClusterFeed(
        coordinator,
        settings,
        "5e" * 32,
        Jobs(),
        lambda doing: shown.append(feed.tally.counts()),
    )

    def train(queue, rows, epochs):
        feed.train(Training(epochs, Replay(), 0), {queue: Rows(rows)}, queue, 60.0, None)

    def look():
        counts = shown[-1]
        return counts["epoch"], counts["epochs"], counts["epoch_fed"], counts["items_planned"]

    looks = []

    def train_another():
        """As another thread does while the first one waits in its second epoch."""
        looks.append(look())
        coordinator.meanwhile = [lambda: looks.append(look()), lambda: None]
        train("other", 10, epochs=2)
        looks.append(look())

    coordinator.meanwhile = [lambda: looks.append(look()), train_another]
    train("input", 100, epochs=4)
    looks.append(look())
    assert looks == [
        (1, 4, 0.75, 0),
        (2, 4, 0.75, 400),
        (1, 2, 0.75, 0),  # what is behind
        (2, 4, 0.75, 420),  # the other call has ended
        (4, 4, 0.0, 420),
    ]
    train("input", 100, epochs=1)
    assert look() == (1, 1, 0.0, 100), "nothing of the calls before"
