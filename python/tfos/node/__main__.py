"""A node's process: ``python -m tfos.node``, started by ``tfos agent`` and by nobody else."""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import socket
import sys
import tempfile
import traceback
import warnings
from typing import Any

from tfos import _native
from tfos.base import control_message, gpu, import_hook, training_nodes
from tfos.base.programs import program_process, program_result
from tfos.base.roles import SERVICE_JOBS
from tfos.errors import TfosError
from tfos.feed.datafeed import FeedSource
from tfos.files import hadoop_settings
from tfos.node import backends, profiling, stacks
from tfos.node.agent_link import AgentLink
from tfos.node.context import NodeContext, tensorflow_cluster
from tfos.node.internals import share_port


def main() -> int:
    faulthandler.enable()  # a crash in native code shows where the program was
    result_file = program_result.inherited()
    link = AgentLink()
    step = "start the node"
    source = None
    try:
        stacks.serve(link)
        profiling.serve(link)
        context_arguments = _prepare(link.bootstrap)
        import_hook.call_after_import(
            "tensorflow",
            lambda: _prepare_tensorflow(link),
            before=lambda: link.say("importing TensorFlow"),
        )
        import_hook.call_after_import("torch", lambda: _prepare_torch(link.bootstrap))
        source = _start_feed(link)
        for package in ("keras", "tf_keras"):
            import_hook.call_after_import(
                package, functools.partial(_prepare_keras, link, source, package)
            )
        _say_with_whom_it_trains(link, source)
        step = "import the program"
        link.enter("starting", "importing the program")
        import cloudpickle

        program, args = cloudpickle.loads(link.payload)
        context = NodeContext(
            link.bootstrap, args, feed_source=source, reporter=link, **context_arguments
        )
        share_port(context)
        step = "run the program"
        link.enter("running", feed=source.server.endpoint() if source else None)
        result = _call(program, context)
        step = "finish the feed"
        if source is not None:
            source.finish(others_go_on="tfos.collective" in sys.modules)
        step = "wait for the other nodes"
        _leave_group()
        if source is not None:
            source.close()
        step = "hand over what the program returned"
        if result_file is not None:
            program_result.write(result_file, result)
        step = "finish the program"
        program_process.finish(link.say)
    except BaseException as error:  # the boundary: whatever it is, the driver must hear of it
        return _fail(link, source, step, error)
    link.send("done")
    return 0


def _call(program: Any, context: NodeContext) -> Any:
    """Calls the program. Leaving through ``sys.exit(0)``, as flag libraries do, is returning
    None."""
    try:
        return program(context)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise
    return None


def _prepare(bootstrap: dict[str, Any]) -> dict[str, Any]:
    """Sets up the environment that TensorFlow, or another backend of Keras, reads before anything
    imports it."""
    hadoop_settings.hide_secrets()
    backend = bootstrap["node"]["keras_backend"] or os.environ.get("KERAS_BACKEND", "")
    if backend:
        os.environ["KERAS_BACKEND"] = backend
    cluster_spec = tensorflow_cluster(bootstrap)
    if backend in backends.BACKENDS:
        os.environ.pop("TF_CONFIG", None)
        # Their groups have one size from start to end. So those who ask for one with
        # nodes=(least, most) hear what is missing, and don't wait for nodes that have not come.
        if not bootstrap["node"]["elastic"]:
            os.environ.update(backends.environment(bootstrap["nodes"], bootstrap["node_id"]))
    elif sum(len(addresses) for addresses in cluster_spec.values()) > 1:
        os.environ["TF_CONFIG"] = json.dumps(
            {
                "cluster": cluster_spec,
                "task": {"type": bootstrap["job_name"], "index": bootstrap["task_index"]},
                "environment": "cloud",
            }
        )
    else:
        os.environ.pop("TF_CONFIG", None)
    _show_gpus(bootstrap)
    return {"port_socket": socket.socket(fileno=bootstrap["port_fd"])}


def _show_gpus(bootstrap: dict[str, Any]) -> None:
    """Lets this process see the node's GPUs, and no others."""
    if bootstrap["gpus"]:
        if bootstrap["gpu_fraction"]:
            os.environ.pop("XLA_CLIENT_MEM_FRACTION", None)
        os.environ.update(gpu.environment(bootstrap["gpus"], bootstrap["gpu_fraction"]))
    elif bootstrap["job_name"] in SERVICE_JOBS:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif "CUDA_VISIBLE_DEVICES" not in os.environ:  # What the executor's environment says stays.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Other nodes may lease those of the host.
        if gpu.has_devices():
            warnings.warn(
                "this host has GPUs, and the node asked for none: it trains without them. Ask for "
                "one with gpu_count=1 in tfos.run, or with spark.tfos.gpu.count=1",
                RuntimeWarning,
                stacklevel=2,
            )


def _say_with_whom_it_trains(link: AgentLink, feed: FeedSource | None) -> None:
    bootstrap = link.bootstrap
    training_nodes.use(
        bootstrap["nodes"],
        bootstrap["node_id"],
        bootstrap["keys"]["tensors"],
        bootstrap["tensor_port_fd"],
        encrypt=bootstrap["encrypt"],
        may_lose_nodes=bootstrap["node"]["may_lose_nodes"],
        link=link.native if bootstrap["node"]["elastic"] else None,
        joins=bootstrap.get("joins", False),
        feed=feed if bootstrap["node"].get("late") else None,
        **bootstrap["node"]["tensors"],
    )


def _prepare_tensorflow(link: AgentLink) -> None:
    """Tells the program's TensorFlow how much of a shared GPU it has, and lets it reach Hadoop's
    file systems; a program may not need them."""
    bootstrap = link.bootstrap
    if bootstrap["gpu_fraction"]:
        import tensorflow

        gpu.cap_tensorflow(tensorflow, bootstrap["gpu_fraction"], bootstrap["gpus"])
    try:
        import tfos.tensorflow  # noqa: F401  (registers the schemes)
    except TfosError as error:
        warnings.warn(
            f"hdfs:// paths don't work in this node: {error}", RuntimeWarning, stacklevel=2
        )
    link.say("")


def _prepare_torch(bootstrap: dict[str, Any]) -> None:
    """Tells the program's PyTorch how much of a shared GPU it has."""
    if bootstrap["gpu_fraction"]:
        gpu.cap_torch(sys.modules["torch"], bootstrap["gpu_fraction"])


def _prepare_keras(link: AgentLink, feed: FeedSource | None, package: str) -> None:
    """Has ``fit`` say how far it is, and end with the feed."""
    from tfos.keras import ended_feed, reporting

    try:
        reporting.prepare(sys.modules[package], link.report_of_keras, link.say, link.look_again)
        has_ended = (lambda: False) if feed is None else feed.asked_for_more
        ended_feed.prepare(sys.modules[package], has_ended, link.leave_out_unknown)
    except Exception as error:  # whatever a module of that name is, its program is worth more
        warnings.warn(
            f"{package}'s fit does not say how far it is: {error!r}", RuntimeWarning, stacklevel=2
        )


def _leave_group() -> None:
    """Where nodes train together, the others may need this one for some steps yet."""
    collective = sys.modules.get("tfos.collective")
    if collective is None:
        return
    try:
        collective.leave()
    except TfosError as error:  # Of another node, which says itself why.
        warnings.warn(
            f"the other nodes have not come to their end: {error}", RuntimeWarning, stacklevel=2
        )


def _others_can_go_on(error: BaseException) -> bool:
    """Whether the nodes that train together are as they were before it came, and do not wait for
    what this one was doing: it joins them, or passes over steps that were made before."""
    collective = sys.modules.get("tfos.collective")
    if collective is not None and collective.is_coming_in():
        return True
    skipping = sys.modules.get("tfos.keras.skipping")
    return skipping is not None and skipping.was_skipping(error)


def _start_feed(link: AgentLink) -> FeedSource | None:
    node = link.bootstrap["node"]
    if node["input_mode"] != "spark" or link.bootstrap["job_name"] in SERVICE_JOBS:
        return None
    resume = node.get("resume") or {}
    server = _native.FeedServer(
        node_id=link.bootstrap["node_id"],
        cluster_id=link.bootstrap["cluster_id"],
        key_hex=link.bootstrap["keys"]["feed"],
        queues=node["queues"],
        memory_bytes=node["feed_memory"],
        cache_memory_bytes=node["feed_cache_memory"],
        cache_directory=node["feed_cache_directory"] or _local_directory(),
        bind_address=link.bootstrap["bind_address"],
        ports=node["ports"],
        encrypt=link.bootstrap["encrypt"],
        pickle=node["feed_pickle"],
        trained_queue=resume.get("queue", ""),
        trained_before=[tuple(line) for line in resume.get("trained", ())],
    )
    if node["elastic"]:
        server.tell_waits()
    link.attach(server)
    return FeedSource(server, link, node["queues"])


def _local_directory() -> str:
    """Where Spark lets this executor put files: on YARN, elsewhere, and if it does not say."""
    for variable in ("LOCAL_DIRS", "SPARK_LOCAL_DIRS"):
        directory = os.environ.get(variable, "").split(",")[0]
        if directory and os.path.isdir(directory):
            return directory
    return tempfile.gettempdir()


def _fail(link: AgentLink, source: FeedSource | None, step: str, error: BaseException) -> int:
    shown = program_process.from_the_program_on(error, __file__)
    text = "".join(traceback.format_exception(shown))
    message = "".join(traceback.format_exception_only(error)).strip()
    try:
        print(text, file=sys.stderr, flush=True)
        if source is not None:
            longest = control_message.LONGEST_TEXTS["traceback"]
            source.server.fail(control_message.readable(text, longest))
    finally:  # a program may have broken its own streams: the driver hears of the failure even so
        failure = {"step": step, "message": message, "traceback": text}
        # Of a cluster whose nodes may not be lost it is a failure as any other.
        lost = {"lost": True} if _others_can_go_on(error) else {}
        link.send("failed", failure={**failure, **lost})
    return 1


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    finally:
        program_process.leave(code)
