"""GPUs through an ``nvidia-smi`` of our own making."""

import importlib
import json
import os
import subprocess
import threading
import types

import pytest

import tfos
from support.places import RUN_ID, SUPPORT
from support.programs import nodes as programs
from support.waiting import BOUND_SECONDS, wait_for
from tensorflowonspark import gpu_info
from tfos.base import gpu
from tfos.errors import BadInputError, TfosError
from tfos.node import __main__ as node_process


def make_command(tmp_path, *lines, code=0):
    script = tmp_path / "nvidia-smi"
    body = "".join(f"{line}\n" for line in lines)
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{body}END\nexit {code}\n")
    script.chmod(0o755)
    return (str(script),)


@pytest.fixture
def four_gpus(tmp_path):
    used = [900, 10, 500, 20]
    return make_command(tmp_path, *(f"{i}, GPU-{i}, {mib}, 16000" for i, mib in enumerate(used)))


def test_lists_what_the_driver_reports(four_gpus):
    assert gpu.list_gpus(four_gpus)[2] == gpu.Gpu("2", "GPU-2", 500, 16000)


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        (None, "0123"),
        ("2,0", "20"),
        ("GPU-3, 1", "31"),
        ("", ""),
        ("-1", ""),
        ("1,9,0", "1"),
        ("MIG-x,MIG-y", "MIG-xMIG-y"),
    ],
)
def test_those_count_that_the_executors_environment_leaves(
    monkeypatch, four_gpus, variable, indices
):
    if variable is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert "".join(found.index for found in gpu.visible_gpus(four_gpus)) == indices


def test_a_host_without_a_driver_has_none(tmp_path):
    missing = (str(tmp_path / "nothing"),)
    assert gpu.list_gpus(missing) == []
    assert gpu.list_gpus(make_command(tmp_path, "driver not loaded", code=9)) == []


def test_without_an_index_the_least_used_are_taken(four_gpus):
    assert gpu.pick(2, command=four_gpus) == ["1", "3"]


def test_workers_of_different_index_get_disjoint_gpus(four_gpus):
    assert [gpu.pick(2, index, four_gpus) for index in range(3)] == [
        ["0", "1"],
        ["2", "3"],
        ["0", "1"],
    ]
    assert gpu.pick(1, 3, four_gpus) == ["3"]
    assert gpu.pick(3, 1, four_gpus) == ["0", "1", "2"]


def test_asking_for_none_asks_nobody(tmp_path):
    assert gpu.pick(0, 0, (str(tmp_path / "nothing"),)) == []


def test_too_few_are_an_error_that_says_how_many_there_are(four_gpus):
    with pytest.raises(BadInputError, match=r"5 GPU\(s\) were asked for and this host has 4"):
        gpu.pick(5, 0, four_gpus)


@pytest.fixture
def two_gpus(tmp_path):
    # UUIDs of this test's own: leases are names that the whole host shares.
    return make_command(tmp_path, *(f"{i}, {tmp_path}-{i}, 0, 80" for i in range(2)))


def test_leased_gpus_are_different_ones_until_they_are_given_back(two_gpus):
    with gpu.leased(1, two_gpus) as first, gpu.leased(1, two_gpus) as second:
        assert (first.indices, second.indices) == (["0"], ["1"])
    with gpu.leased(2, two_gpus) as both:
        assert both.indices == ["0", "1"]


def test_a_process_that_inherits_a_lease_holds_it_until_it_ends(two_gpus):
    with gpu.leased(1, two_gpus) as first:
        holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=first.descriptors)
    with holder, gpu.leased(1, two_gpus) as second:
        assert (first.indices, second.indices) == (["0"], ["1"])
        holder.communicate()
        with gpu.leased(1, two_gpus) as again:
            assert again.indices == ["0"]


def test_who_finds_no_free_gpu_waits_for_one(two_gpus, caplog):
    taken = []

    def take():
        with gpu.leased(1, two_gpus) as gpus:
            taken.append(gpus.indices)

    waits = threading.Event()
    caplog.handler.addFilter(lambda record: waits.set() or True)
    with gpu.leased(1, two_gpus), gpu.leased(1, two_gpus):
        thread = threading.Thread(target=take)
        thread.start()
        assert waits.wait(BOUND_SECONDS)
        assert taken == []
    thread.join(BOUND_SECONDS)
    assert taken == [["0"]]
    assert "waiting for 1 of this host's 2 GPU(s)" in caplog.text


def test_more_gpus_than_the_host_has_cannot_be_leased(two_gpus):
    with pytest.raises(BadInputError, match=r"wants 3 whole GPU\(s\) but the host has 2"):
        with gpu.leased(3, two_gpus):
            pass


def test_gpus_of_spark_are_leased_where_the_driver_hangs(tmp_path, monkeypatch, caplog):
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nexec sleep infinity\n")
    script.chmod(0o755)
    monkeypatch.setattr(gpu, "_TIMEOUT_SECONDS", 0.2)
    names = [f"{tmp_path}-0", f"{tmp_path}-1"]
    with (
        gpu.leased(1, [str(script)], assigned=names[:1], of_executor=names) as first,
        gpu.leased(1, [str(script)], assigned=names[:1], of_executor=names) as second,
    ):
        assert (first.indices, second.indices) == ([names[0]], [names[1]])
    assert "takes the GPUs that Spark assigned without their UUIDs" in caplog.text
    assert "did not answer within 0.2 s" in caplog.text


def test_memory_that_a_board_does_not_report_counts_as_unused(tmp_path):
    command = make_command(tmp_path, "0, GPU-a, 5, 80", "1, GPU-b, [N/A], 80")
    assert gpu.pick(1, command=command) == ["1"]


def test_an_answer_that_is_not_understood_is_an_error(tmp_path):
    with pytest.raises(TfosError, match="surprise"):
        gpu.list_gpus(make_command(tmp_path, "surprise"))


def test_gpu_info_gives_a_string_or_a_list(four_gpus, monkeypatch):
    monkeypatch.setenv("PATH", four_gpus[0].rpartition("/")[0] + ":/usr/bin:/bin")
    assert gpu_info.is_gpu_available()
    assert gpu_info.get_gpus(2, worker_index=1) == "2,3"
    assert gpu_info.get_gpus(2, worker_index=0, format=gpu_info.AS_LIST) == ["0", "1"]
    assert (gpu_info.AS_STRING, gpu_info.AS_LIST) == ("string", "list")
    with pytest.raises(ValueError, match="has 4"):
        gpu_info.get_gpus(9)


class FakeTensorFlow:
    """What `cap_tensorflow` uses of TensorFlow with GPUs; here it has none."""

    def __init__(self, devices):
        self.limits = {}
        self.config = types.SimpleNamespace(
            list_physical_devices=lambda kind: devices,
            LogicalDeviceConfiguration=lambda memory_limit: memory_limit,
            set_logical_device_configuration=self.limits.__setitem__,
        )


def test_a_node_that_shares_a_gpu_takes_its_share_of_the_memory(four_gpus):
    tensorflow = FakeTensorFlow(["GPU:0"])
    gpu.cap_tensorflow(tensorflow, 0.1, ["3"], four_gpus)
    assert tensorflow.limits == {"GPU:0": [1600]}


def test_no_share_of_an_unknown_amount(tmp_path):
    command = make_command(tmp_path, "0, GPU-a, 5, [N/A]")
    with pytest.raises(TfosError, match="GPU 0 does not say how much memory it has.*10%"):
        gpu.cap_tensorflow(FakeTensorFlow(["GPU:0"]), 0.1, ["0"], command)
    gpu.cap_tensorflow(FakeTensorFlow([]), 0.1, [], command)


def test_what_a_real_driver_prints(tmp_path):
    # As nvidia-smi 580.159.04 does for an H200.
    uuid = "GPU-78d54267-4ffa-f1bc-016a-cc8f952bca19"
    command = make_command(tmp_path, f"0, {uuid}, 0, 143771")
    assert gpu.list_gpus(command) == [gpu.Gpu("0", uuid, 0, 143771)]


def test_a_process_sees_its_gpus_in_the_order_of_the_driver():
    assert gpu.environment(["0", "2"]) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,2",
    }


def test_jax_takes_the_share_that_its_environment_says():
    assert gpu.environment(["1"], 0.3)["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.3"


def test_torch_takes_its_share_of_each_gpu_that_it_sees():
    shares = {}
    cuda = types.SimpleNamespace(
        device_count=lambda: 2,
        set_per_process_memory_fraction=lambda share, device: shares.update({device: share}),
    )
    gpu.cap_torch(types.SimpleNamespace(cuda=cuda), 0.3)
    assert shares == {0: 0.3, 1: 0.3}


@pytest.mark.parametrize(
    ("job", "of_the_executor", "visible"),
    [("worker", None, ""), ("worker", "3", "3"), ("chief", "", ""), ("evaluator", "3", "")],
)
def test_a_node_without_gpus_sees_none_of_its_host(monkeypatch, job, of_the_executor, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # So that it is as it was in the end.
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    if of_the_executor is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", of_the_executor)
    node_process._show_gpus({"gpus": [], "gpu_fraction": 0.0, "job_name": job})
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


def test_a_node_says_that_it_trains_without_the_gpus_of_its_host(monkeypatch, tmp_path):
    (tmp_path / "nvidiactl").touch()
    assert not gpu.has_devices(str(tmp_path))
    (tmp_path / "nvidia0").touch()
    assert gpu.has_devices(str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(gpu, "has_devices", lambda: True)
    with pytest.warns(RuntimeWarning, match="asked for none: .* spark.tfos.gpu.count"):
        node_process._show_gpus({"gpus": [], "gpu_fraction": 0.0, "job_name": "worker"})


@pytest.mark.parametrize(
    ("package", "fraction"),
    [
        ("tensorflowonspark", None),
        ("tensorflowonspark_gpu10p", 0.1),
        ("tensorflowonspark_gpu20p", 0.2),
    ],
)
def test_packages_whose_nodes_share_a_gpu(monkeypatch, package, fraction):
    cluster_module = importlib.import_module(f"{package}.TFCluster")
    importlib.import_module(f"{package}.TFNode")
    asked = {}
    monkeypatch.setattr(cluster_module.start, "start", lambda *given: asked.update(given[-1]))
    cluster_module.run(None, len, [], 2)
    assert asked.get("gpu_fraction") == fraction


def test_executors_have_the_gpus_of_a_test_and_otherwise_those_of_their_host(
    gpus_of_executors, tmp_path
):
    def listed(*directories):
        path = os.pathsep.join(map(str, [SUPPORT / "bin", *directories, "/usr/bin", "/bin"]))
        return gpu.list_gpus(("env", f"PATH={path}", "nvidia-smi"))

    (tmp_path / "nvidia-smi").symlink_to("/bin/false")
    assert listed(tmp_path) == []
    (tmp_path / "nvidia-smi").unlink()
    make_command(tmp_path, "0, GPU-of-the-host, 5, 16000")
    assert [found.uuid for found in listed(tmp_path)] == ["GPU-of-the-host"]
    gpus_of_executors(2)
    assert [found.index for found in listed(tmp_path)] == ["0", "1"]


def gpus_of_nodes(spark, directory, **settings):
    """{job-index: what its program saw} of a cluster of two nodes."""
    directory.mkdir()
    with tfos.run(
        spark,
        programs.write_gpus,
        nodes=2,
        args=str(directory),
        input_mode="tensorflow",
        **settings,
    ):
        # Nobody waits for a parameter server's program.
        wait_for(lambda: len(list(directory.glob("*-?"))) == 2, "what both nodes write")
    return {path.name: json.loads(path.read_text()) for path in directory.iterdir()}


def test_nodes_of_a_cluster_have_gpus_of_their_own_and_parameter_servers_none(
    spark, tmp_path, gpus_of_executors
):
    gpus_of_executors(2)
    workers = gpus_of_nodes(spark, tmp_path / "workers", gpu_count=1)
    assert sorted(node["visible"] for node in workers.values()) == ["0", "1"]
    assert all(node["gpus"] == [node["visible"]] for node in workers.values())
    seen = gpus_of_nodes(spark, tmp_path / "servers", gpu_count=2, ps=1)
    assert sorted(seen["worker-0"]["gpus"]) == ["0", "1"]
    assert seen["ps-0"]["gpus"] == [] and seen["ps-0"]["visible"] in ("", "-1", None)


def test_nodes_of_a_cluster_share_a_gpu(spark, tmp_path, gpus_of_executors):
    gpus_of_executors(1)
    nodes = gpus_of_nodes(spark, tmp_path / "shared", gpu_fraction=0.5)
    assert (
        list(nodes.values())
        == [{"gpus": ["0"], "visible": "0", "fraction": 0.5, "order": "PCI_BUS_ID", "jax": "0.5"}]
        * 2
    )


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_a_node_tells_the_torch_of_its_program_its_share(spark, tmp_path, gpus_of_executors, share):
    gpus_of_executors(1)
    with tfos.run(
        spark,
        programs.import_made_up_torch,
        nodes=1,
        args=str(tmp_path),
        input_mode="tensorflow",
        gpu_fraction=share,
    ) as cluster:
        assert cluster.wait() == [{0: share, 1: share} if share else {}]


def test_the_usage_of_its_gpus_is_in_the_metrics_of_a_node(spark, tmp_path, gpus_of_executors):
    gpus_of_executors(2)
    args = {"dir": str(tmp_path), "batch": 10}
    with tfos.run(spark, programs.collect_rows, nodes=2, args=args, gpu_count=1) as cluster:

        def usage():
            return [
                (node.metrics.get("gpu_utilization"), node.metrics.get("gpu_memory_bytes"))
                for node in cluster.status()
            ]

        wait_for(lambda: usage() == [(0.5, 0)] * 2, usage)
    # Nothing is in use any more once a node has ended.
    assert usage() == [(None, None)] * 2


@pytest.mark.parametrize("visible", ["0", ""])
def test_gpus_that_earlier_tasks_chose_for_themselves_do_not_bind_nodes(
    spark_on, tmp_path, gpus_of_executors, visible
):
    """Spark keeps their Python workers, and launch tasks run in these."""

    def choose(rows):
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
        return rows

    gpus_of_executors(2)
    spark = spark_on("local[2]")
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(choose).count()
    nodes = gpus_of_nodes(spark, tmp_path / "nodes", gpu_count=1)
    assert sorted(node["visible"] for node in nodes.values()) == ["0", "1"]
    none = gpus_of_nodes(spark, tmp_path / "none")
    assert [node["visible"] for node in none.values()] == ["", ""]


def test_nodes_have_slices_of_a_gpu(spark_on, tmp_path, gpus_of_executors):
    gpus_of_executors(1)
    slices = [f"MIG-{RUN_ID}-{number}" for number in range(2)]
    spark = spark_on("local[2]", **{"spark.executorEnv.CUDA_VISIBLE_DEVICES": ",".join(slices)})
    nodes = gpus_of_nodes(spark, tmp_path / "nodes", gpu_count=1)
    assert sorted(node["visible"] for node in nodes.values()) == slices
