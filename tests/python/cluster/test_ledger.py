"""The counts of rows, without a cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from tfos.cluster.feed.course import Course
from tfos.cluster.feed.tally import Tally
from tfos.cluster.ledger import Ledger
from tfos.cluster.progress import Progress
from tfos.cluster.training import Training
from tfos.feed.plan import Replay


def node(index, state="done", host="h", **metrics):
    of_node = {"job_name": "worker", "task_index": index, "host": host}
    return {**of_node, "state": state, "metrics": metrics}


def test_what_adds_up_is_shown_and_not_complained_of():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(60, 0), (40, 0)])
    ledger.update(
        [
            node(
                0, items_delivered=70, items_replayed=70, rows=130, rows_dropped=10, items_unread=0
            ),
            node(1, items_delivered=30, rows=25, items_unread=5),
            {"job_name": "ps", "task_index": 0, "state": "done", "metrics": {}},
        ]
    )
    assert ledger.complaint() is None
    assert ledger.lines() == [
        "ledger | rows read from Spark: 100, delivered to nodes: 100",
        "ledger | worker:0: 70 rows delivered, 70 rows replayed, 130 rows read by the program, "
        "10 dropped as remainder",
        "ledger | worker:1: 30 rows delivered, 25 rows read by the program, 5 rows left unread",
    ]


def test_a_program_that_ends_early_is_warned_of(caplog):
    """As by fit(epochs=1) where three epochs were fed."""
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(300, 0)])
    ledger.update([node(0, items_delivered=150, rows=50), node(1, items_delivered=150, rows=150)])
    assert ledger.ended_early == ["worker:0"]
    progress = Progress(False)
    progress.say_ledger(ledger, True)
    assert not caplog.messages  # The failure says more.
    progress.say_ledger(ledger, False)
    (message,) = caplog.messages
    assert message.startswith("worker:0 ended before all rows that were fed had been read")
    ledger.cut_short = True
    assert ledger.ended_early == []


def test_a_program_that_wants_more_epochs_is_warned_of_unless_the_feed_was_cut_short(caplog):
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(100, 0)])
    ledger.update([node(0, items_delivered=100, rows=100, asked_for_more=1)])
    Progress(False).say_ledger(ledger, False)
    (message,) = caplog.messages
    assert message.startswith("worker:0 asked for an epoch that was not fed")
    caplog.clear()
    ledger.cut_short = True  # As by `tfos stop`.
    Progress(False).say_ledger(ledger, True)
    assert not caplog.messages


def test_a_node_counts_with_the_one_that_it_came_in_place_of():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(100, 0)])
    before = [{"items_delivered": 30, "rows": 20}, {}]
    ledger.update([{**node(0, items_delivered=80, rows=80), "metrics_before": before}])
    assert ledger.lost == ledger.came_again == {"worker:0"}
    assert ledger.complaint() is None
    assert ledger.lines()[1:] == [
        "ledger | worker:0: 110 rows delivered, 100 rows read by the program, 10 rows left unread, "
        "lost, and another came in its place"
    ]


def test_rows_that_are_lost_or_doubled_are_complained_of():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(100, 0)])
    ledger.update([node(0, items_delivered=99, rows=99)])
    assert ledger.complaint() == "the feed tasks delivered 100 rows and the nodes count 99"


def test_rows_that_a_program_reads_twice_are_complained_of():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(100, 0)])
    ledger.update([node(0, items_delivered=60, rows=60), node(1, items_delivered=40, rows=43)])
    assert ledger.complaint() == "worker:1 got 3 rows fewer than its program has read"


def test_a_job_that_was_cut_short_has_no_count():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(10, 0)])
    ledger.cut_short = True
    ledger.update([node(0, items_delivered=40, rows=12, items_unread=28)])
    assert ledger.complaint() is None
    assert "at least 10" in ledger.lines()[0]
    assert ledger.lines()[1].endswith("28 rows left unread")
    assert ledger.lines(is_last=False)[1].endswith("28 rows not read yet")


def test_a_job_that_failed_says_nothing_of_what_was_read():
    ledger = Ledger()
    ledger.cut_short = True
    ledger.update([node(0, items_delivered=40, rows=12, items_unread=28)])
    assert ledger.complaint() is None
    assert ledger.lines()[0] == ("ledger | rows read from Spark: not known, delivered to nodes: 40")


def test_a_node_that_was_lost_at_once_is_named():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(40, 0)])
    ledger.update([node(0, items_delivered=40, rows=40), node(1, state="lost")])
    assert ledger.lines()[-1] == "ledger | worker:1: lost before its first word"


def test_a_node_that_never_came_is_not_a_lost_one():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(40, 0)])
    ledger.update([node(0, items_delivered=30, rows=30), node(1, "lost", host="")])
    assert not ledger.lost
    assert ledger.complaint() == "the feed tasks delivered 40 rows and the nodes count 30"


def test_pickled_batches_are_counted_as_those():
    ledger = Ledger()
    ledger.begin_job(True)
    ledger.count_job([(3, 0)])
    ledger.update([node(0, items_delivered=3, rows=3000, items_unread=0)])
    assert ledger.complaint() is None
    first, of_node = ledger.lines()
    assert first == (
        "ledger | pickled batches read from Spark: 3, delivered to nodes: 3 "
        "(a pickled batch holds several rows, as Spark had packed them)"
    )
    assert of_node == (
        "ledger | worker:0: 3 pickled batches delivered, 3,000 rows read by the program"
    )


def test_rows_beside_pickled_batches_are_not_called_batches_or_rows():
    """As when an RDD that Spark holds pickled is fed, and then a DataFrame."""
    ledger = Ledger()
    assert ledger.unit == "rows"
    ledger.begin_job(True)
    assert ledger.unit == "pickled batches", "from the job's beginning: it may be interrupted"
    ledger.count_job([(3, 0)])
    ledger.begin_job(False)
    ledger.count_job([(50, 0)])
    ledger.update([node(0, items_delivered=53, items_replayed=3, rows=3050, items_unread=4)])
    assert ledger.complaint() is None
    first, of_node = ledger.lines()
    assert first.startswith(
        "ledger | rows and pickled batches read from Spark: 53, delivered to nodes: 53 (a pickled"
    )
    assert of_node == (
        "ledger | worker:0: 53 rows and pickled batches delivered, 3 rows and pickled batches "
        "replayed, 3,050 rows read by the program, 4 rows and pickled batches left unread"
    )


def test_what_the_page_shows_says_what_is_counted():
    tally = Tally(SimpleNamespace(nodes=list))
    tally.begin_job(Course(), pickled=True)
    assert tally.counts()["unit"] == "pickled batches"


def test_threads_count_and_look_at_the_same_time():
    nodes = []

    def come():
        nodes.append(node(len(nodes), items_delivered=1, rows=1, items_unread=0))
        return list(nodes)

    tally = Tally(SimpleNamespace(nodes=come))

    def feed(_):
        course = Course()
        for _ in range(50):
            tally.begin_job(course, pickled=False)
            tally.count_job(course, [(1, 0)], was_counted=False)
            ledger = tally.ledger()
            assert ledger.delivered == len(ledger.nodes)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(feed, range(4)))
    assert (tally.counts()["items_read"], len(nodes)) == (200, 200)


def test_inference_is_no_part_of_it():
    ledger = Ledger()
    ledger.update([node(0, items_delivered=0, rows=50, result_rows=50)])
    assert ledger.lines() == []


def test_what_moved_from_a_lost_node_was_delivered_twice():
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(60, 0), (40, 12)])
    ledger.update(
        [
            node(0, items_delivered=77, rows=72, rows_read_elsewhere=5),
            node(1, state="lost", items_delivered=30, rows=22, items_unread=8),
        ]
    )
    assert ledger.complaint() is None
    assert ledger.lines() == [
        "ledger | rows read from Spark: 100, delivered to nodes: 107, moved from lost nodes: 12",
        "ledger | worker:0: 77 rows delivered, 72 rows read by the program, "
        "5 by that of a lost node",
        "ledger | worker:1: 30 rows delivered, 22 rows read by the program, 8 rows left unread, "
        "lost (as of its last word)",
    ]


def test_what_an_earlier_cluster_has_trained_is_told_apart():
    tally = Tally(SimpleNamespace(nodes=list))
    tally.count_done(1)
    with tally.course_of(Training(2, Replay(), 0, done=1, position=SimpleNamespace(rows=64))):
        ledger = tally.ledger()
    assert (ledger.epochs_before, ledger.rows_before) == (1, 64)
    ledger.begin_job(False)
    ledger.count_job([(150, 0)])
    fed = node(0, items_delivered=150, rows=146, rows_read_elsewhere=4)
    ledger.update([fed])
    assert ledger.complaint() is None
    assert ledger.lines() == [
        "ledger | rows read from Spark: 150, delivered to nodes: 150",
        "ledger | trained by an earlier cluster: 1 epoch and 64 rows of the next",
        "ledger | worker:0: 150 rows delivered, 146 rows read by the program, "
        "4 by that of an earlier cluster",
    ]
    ledger.update([fed, node(1, state="lost")])
    assert "4 by that of a lost node or of an earlier cluster" in ledger.lines()[2]
    ledger.epochs_before = 0
    assert ledger.lines()[1].endswith(": 64 rows of the first")
    ledger.epochs_before, ledger.rows_before = 3, 0
    assert ledger.lines()[1].endswith(": 3 epochs")


def test_a_training_that_a_callback_has_ended_is_no_mistake(caplog):
    ledger = Ledger()
    ledger.begin_job(False)
    ledger.count_job([(200, 0)])
    ledger.update([node(i, items_delivered=100, rows=40, stopped_early=1) for i in range(2)])
    assert ledger.ended_early == []
    Progress(False).say_ledger(ledger, False)
    assert not caplog.messages, "fit() and train() have as many epochs"
    assert ledger.lines()[-1] == (
        "ledger | on worker:0, worker:1, a callback such as EarlyStopping has ended fit before its "
        "last epoch, so rows of later epochs are not trained on"
    )
    assert "EarlyStopping" not in str(ledger.lines(is_last=False))
    resumed = Ledger(read=200, epochs_before=3)
    resumed.update([node(0, items_delivered=100, rows=0, stopped_early=1)])
    assert resumed.lines()[-1] == (
        "ledger | on worker:0, a callback such as EarlyStopping had ended the training in an "
        "earlier cluster, so nothing was trained. With more patience, it would go on"
    )


def test_a_ledger_is_the_callers_own():
    tally = Tally(SimpleNamespace(nodes=list))
    before = tally.ledger()
    tally.cut_short()
    assert not before.cut_short and tally.ledger().cut_short
    tally.ledger().nodes["worker:0"] = {}
    assert tally.ledger().nodes == {}
