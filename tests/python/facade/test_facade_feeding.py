"""Programs written for TensorFlowOnSpark that Spark feeds."""

import pickle

import cloudpickle
import pytest

from support.programs.facade import note, square_rows, sum_rows
from tensorflowonspark import TFNode
from tensorflowonspark.TFCluster import InputMode
from tfos.cluster.feed.run import _IntervalFeed
from tfos.errors import BadInputError


def test_training_rows_arrive_once_in_every_epoch(run, args, notes, spark):
    cluster = run(sum_rows, args, 2, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize(range(500), 5), num_epochs=2)
    cluster.shutdown()
    seen = notes()
    rows = seen["worker-0"]["rows"] + seen["worker-1"]["rows"]
    assert sorted(rows) == sorted([*range(500)] * 2)


def test_inference_is_lazy_and_comes_back_in_order(run, args, spark):
    cluster = run(square_rows, args, 2, input_mode=InputMode.SPARK)
    results = cluster.inference(spark.sparkContext.parallelize(range(300), 4))
    assert results.collect() == [row * row for row in range(300)]
    cluster.shutdown()


def test_a_feed_may_be_made_from_mgr_with_an_input_mapping(run, args, notes, spark):
    def program(args, ctx):
        feed = TFNode.DataFeed(ctx.mgr, True, input_mapping={"label": "y", "image": "x"})
        note(args, ctx, batch=feed.next_batch(3), short=feed.next_batch(3), done=feed.done_feeding)

    cluster = run(program, args, 1, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize([([1, 2], 0), ([3, 4], 1), ([5, 6], 2)], 1), 1)
    cluster.shutdown()
    assert notes()["worker-0"] == {
        "batch": {"x": [[1, 2], [3, 4], [5, 6]], "y": [0, 1, 2]},
        "short": {"x": [], "y": []},
        "done": True,
    }


def test_terminate_discards_the_rest_of_the_feed(run, args, spark):
    def program(args, ctx):
        feed = ctx.get_data_feed()
        assert len(feed.next_batch(10)) == 10 and not feed.should_stop()
        feed.terminate()
        assert feed.next_batch(10) == [] and feed.should_stop() and feed.done_feeding

    cluster = run(program, args, 2, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize(range(20_000), 8))
    cluster.shutdown(timeout=60)


@pytest.mark.filterwarnings("ignore:DStream is deprecated")
def test_every_rdd_of_a_dstream_is_fed_until_the_program_has_enough(run, args, notes, spark):
    from pyspark.streaming import StreamingContext

    def program(args, ctx):
        feed = ctx.get_data_feed()
        rows = []
        while len(rows) < 60:
            rows += feed.next_batch(10)
        note(args, ctx, rows=rows)
        feed.terminate()

    sc = spark.sparkContext
    cluster = run(program, args, 1, input_mode=InputMode.SPARK)
    streaming = StreamingContext(sc, 1)
    batches = [sc.parallelize(range(start, start + 20), 2) for start in range(0, 100, 20)]
    cluster.train(streaming.queueStream(batches))
    streaming.start()
    cluster.shutdown(ssc=streaming, timeout=60)
    assert sorted(notes()["worker-0"]["rows"]) == list(range(60))


@pytest.mark.filterwarnings("ignore:DStream is deprecated")
def test_a_dstream_of_a_context_with_checkpoints_is_fed(run, args, notes, spark, tmp_path):
    """Whatever keeps a state needs them. Spark pickles what it does with each interval for them."""
    from pyspark.streaming import StreamingContext

    def program(args, ctx):
        feed = ctx.get_data_feed()
        rows = set()
        while len(rows) < 2:
            rows.update(feed.next_batch(1))
        note(args, ctx, rows=sorted(rows))
        feed.terminate()

    sc = spark.sparkContext
    cluster = run(program, args, 1, input_mode=InputMode.SPARK)
    streaming = StreamingContext(sc, 1)
    streaming.checkpoint(str(tmp_path))
    pairs = streaming.queueStream([sc.parallelize([("a", 1), ("b", 2)], 1)])
    sums = pairs.updateStateByKey(lambda new, old: sum(new, old or 0))
    cluster.train(sums.map(lambda pair: pair[1]))
    streaming.start()
    cluster.shutdown(ssc=streaming, timeout=60)
    assert notes()["worker-0"]["rows"] == [1, 2]


def test_a_stream_that_is_restored_from_a_checkpoint_says_that_its_cluster_is_gone():
    restored = pickle.loads(cloudpickle.dumps(_IntervalFeed(lambda rdd: None)))
    with pytest.raises(BadInputError, match="make the StreamingContext anew"):
        restored(None)
