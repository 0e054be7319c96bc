"""The names and signatures of TensorFlowOnSpark that programs use."""

import inspect
from types import SimpleNamespace

import pytest

import tensorflowonspark
from tensorflowonspark import (
    TFCluster,
    TFManager,
    TFNode,
    TFSparkNode,
    compat,
    gpu_info,
    marker,
    pipeline,
    reservation,
    util,
)
from tfos.errors import BadInputError


def test_the_version_is_that_of_the_api():
    assert tensorflowonspark.__version__ == "2.2.5"


def parameters(function):
    return [
        name if parameter.default is inspect.Parameter.empty else (name, parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    ]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            TFCluster.run,
            [
                "sc",
                "map_fun",
                "tf_args",
                "num_executors",
                ("num_ps", 0),
                ("tensorboard", False),
                ("input_mode", 0),
                ("log_dir", None),
                ("driver_ps_nodes", False),
                ("master_node", None),
                ("reservation_timeout", 600),
                ("queues", ("input", "output", "error")),
                ("eval_node", False),
                ("release_port", True),
            ],
        ),
        (
            TFCluster.TFCluster.train,
            ["self", "dataRDD", ("num_epochs", 0), ("feed_timeout", 600), ("qname", "input")],
        ),
        (
            TFCluster.TFCluster.inference,
            ["self", "dataRDD", ("feed_timeout", 600), ("qname", "input")],
        ),
        (
            TFCluster.TFCluster.shutdown,
            ["self", ("ssc", None), ("grace_secs", 0), ("timeout", 259200)],
        ),
        (
            TFNode.DataFeed.__init__,
            [
                "self",
                "mgr",
                ("train_mode", True),
                ("qname_in", "input"),
                ("qname_out", "output"),
                ("input_mapping", None),
            ],
        ),
        (
            TFSparkNode.TFNodeContext.get_data_feed,
            [
                "self",
                ("train_mode", True),
                ("qname_in", "input"),
                ("qname_out", "output"),
                ("input_mapping", None),
            ],
        ),
        (TFNode.start_cluster_server, ["ctx", ("num_gpus", 1), ("rdma", False)]),
        (TFNode.export_saved_model, ["sess", "export_dir", "tag_set", "signatures"]),
        (compat.export_saved_model, ["model", "export_dir", ("is_chief", False)]),
        (gpu_info.get_gpus, [("num_gpu", 1), ("worker_index", -1), ("format", "string")]),
        (util.single_node_env, [("num_gpus", 1), ("worker_index", -1), ("nodes", ())]),
    ],
)
def test_signatures_are_those_that_programs_call(function, expected):
    assert parameters(function) == expected


def test_input_modes_have_their_numbers():
    assert (TFCluster.InputMode.TENSORFLOW, TFCluster.InputMode.SPARK) == (0, 1)


def test_hdfs_path_reads_two_attributes_only():
    ctx = SimpleNamespace(defaultFS="file://", working_dir="/wd")
    assert TFNode.hdfs_path(ctx, "model") == "file:///wd/model"


@pytest.mark.parametrize(
    "call",
    [
        lambda: TFNode.next_batch(None, 1),
        lambda: TFNode.batch_results(None, []),
        lambda: TFNode.terminate(None),
    ],
)
def test_functions_without_a_feed_object_say_what_to_use(call):
    with pytest.raises(BadInputError, match="deprecated: use .* of ctx.get_data_feed"):
        call()


def test_names_that_were_internal_exist():
    assert issubclass(marker.EndPartition, marker.Marker)
    assert TFManager.TFManager.__name__ == "FeedSource"
    assert reservation.Server(("h", 1)).addr == ("h", 1)
    with pytest.raises(BadInputError, match="cluster.shutdown"):
        reservation.Client(("h", 1))


def test_a_class_with_parameter_servers_has_both_parameters():
    class Own(pipeline.HasNumPS):
        pass

    own = Own().setNumPS(2).setDriverPSNodes(True)
    assert (own.getNumPS(), own.getDriverPSNodes()) == (2, True)
