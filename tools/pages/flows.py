"""The four flows of docs/architecture.md: processes, rooms, and what goes from one to another."""

from __future__ import annotations

from flow_picture import Arrow, Frame, Picture, Room

CONTROL = Picture(
    "control_flow",
    "Control: the driver talks to the coordinator over pipes, the coordinator to each agent over a "
    "WebSocket, each agent to its node over a socket pair",
    (
        Frame(
            16,
            16,
            216,
            "driver: your program",
            (
                Room("cluster", "python/tfos/cluster", ("tfos.run, Cluster",)),
                Room("jobs", "python/tfos/spark", ("the launch job of n tasks",)),
            ),
        ),
        Frame(
            330,
            16,
            250,
            "tfos coordinator",
            (
                Room(
                    "coordinator", "src/control/coordinator", ("roles, roster, failures, metrics",)
                ),
                Room("server", "src/control/link", ("one port: WebSocket and HTTP",)),
            ),
        ),
        Frame(
            680,
            92,
            250,
            "tfos agent, one for each node",
            (
                Room("link", "src/control/link", ("the agent's end of it",)),
                Room(
                    "agent",
                    "src/control/agent",
                    ("starts and watches the node,", "with src/control/host: GPUs, ports"),
                ),
            ),
        ),
        Frame(
            330,
            312,
            250,
            "Spark task on an executor",
            (Room("launch", "python/tfos/cluster/launch.py", ("starts one agent",)),),
        ),
        Frame(
            680,
            312,
            250,
            "node: Python and TensorFlow",
            (
                Room("node_link", "src/node", ("ends the feed, sends metrics",)),
                Room("node", "python/tfos/node", ("calls your main(ctx)",)),
            ),
        ),
    ),
    (
        Arrow("cluster", "coordinator", ("pipes,", "lines of JSON"), both=True),
        Arrow("coordinator", "server", both=True),
        Arrow("cluster", "jobs"),
        Arrow("jobs", "launch", ("Spark job",)),
        Arrow("launch", "agent", ("starts it,", "pipes"), both=True),
        Arrow("server", "link", ("WebSocket,", "JSON"), both=True),
        Arrow("link", "agent", both=True),
        Arrow("agent", "node_link", ("socket pair",), both=True),
        Arrow("node_link", "node", both=True),
    ),
)

FEED = Picture(
    "feed_flow",
    "Feed: the driver plans a Spark job, whose tasks write chunks of rows into nodes' memory; "
    "each node queues them and hands them to the program as batches or rows",
    (
        Frame(
            16,
            16,
            216,
            "driver: your program",
            (
                Room("train", "python/tfos/cluster", ("Cluster.train, epochs, ledger",)),
                Room("plan", "python/tfos/feed/plan.py", ("where the nodes listen",)),
            ),
        ),
        Frame(
            330,
            16,
            250,
            "Spark task on an executor",
            (
                Room(
                    "task",
                    "python/tfos/feed/tasks.py",
                    ("rows in a Python worker; in a JVM", "it is tfos.internal.feed.PartitionFeed"),
                ),
                Room("edge", "src/python or src/jvm", ("rows to the native side",)),
                Room("columns", "src/columns, src/chunk", ("typed columns in one chunk",)),
                Room("feeder", "src/feed/feeder", ("chooses a node for each chunk",)),
            ),
        ),
        Frame(
            680,
            16,
            250,
            "node: Python and TensorFlow",
            (
                Room(
                    "main",
                    "your main(ctx)",
                    ("model.fit(ctx.dataset(128))", "or ctx.feed.next_batch(128)"),
                ),
                Room("ops", "src/tensorflow, src/datasets", ("an op of tf.data; no Python",)),
                Room("read", "src/feed/read", ("batches, steps that all can make",)),
                Room("queue", "src/feed/queue", ("order, epochs, cached rows",)),
                Room("node", "src/feed/node", ("sessions, memory, the ledger",)),
            ),
        ),
    ),
    (
        Arrow("train", "plan"),
        Arrow("plan", "task", ("Spark job",)),
        Arrow("task", "edge"),
        Arrow("edge", "columns"),
        Arrow("columns", "feeder"),
        Arrow("feeder", "node", ("chunks;", "back: credits,", "results"), both=True),
        Arrow("node", "queue"),
        Arrow("queue", "read"),
        Arrow("read", "ops"),
        Arrow("ops", "main"),
    ),
)

TENSORS = Picture(
    "tensor_flow",
    "Tensors: nodes exchange gradients through src/collective, over shared memory on one host and "
    "TCP, TLS or UCX between hosts; workers reach parameter servers through src/parameter_server",
    (
        Frame(
            16,
            16,
            250,
            "a node on host A",
            (
                Room("keras", "python/tfos/keras", ("ctx.distribute(optimizer)",)),
                Room("api", "python/tfos/collective", ("all_reduce, broadcast",)),
                Room("ops", "src/tensorflow", ("ops that TensorFlow loads",)),
                Room("group", "src/datasets", ("the group behind the ops",)),
                Room("collective", "src/collective", ("sums up on the host first",)),
            ),
        ),
        Frame(
            340,
            316,
            250,
            "another node on host A",
            (Room("same", "src/collective", ("one of each host speaks for it",)),),
        ),
        Frame(
            680,
            316,
            250,
            "a node on host B",
            (Room("other", "src/collective", ("one of each host speaks for it",)),),
        ),
        Frame(
            340,
            16,
            250,
            "a worker, at its own pace",
            (
                Room("client_api", "python/tfos/parameter_server", ("ctx.parameter_server(...)",)),
                Room("client", "src/parameter_server", ("a thread for each server",)),
            ),
        ),
        Frame(
            680,
            92,
            250,
            "tfos parameter-server, role ps",
            (Room("server", "src/parameter_server", ("combines, keeps its share",)),),
        ),
    ),
    (
        Arrow("keras", "api"),
        Arrow("api", "ops"),
        Arrow("ops", "group", ("C functions",)),
        Arrow("group", "collective"),
        Arrow("collective", "same", ("shared", "memory"), both=True),
        Arrow("same", "other", ("TCP, TLS", "or UCX"), both=True),
        Arrow("client_api", "client"),
        Arrow("client", "server", ("push, fetch", "over TCP or", "memory"), both=True),
    ),
)

FILES = Picture(
    "file_flow",
    "Files: TensorFlow, the datasets of a node, Spark's tasks and your program reach files of this "
    "host and of HDFS through src/records, src/files and src/hadoop",
    (
        Frame(
            16,
            16,
            222,
            "node: TensorFlow's files",
            (
                Room("gfile", "tf.io.gfile, checkpoints", ("any path with hdfs://",)),
                Room("plugin", "src/hadoop/plugin/plugin.cc", ("TensorFlow's file systems",)),
            ),
        ),
        Frame(
            258,
            16,
            222,
            "node: ctx.tfrecords",
            (
                Room("tfrecords", "python/tfos/node/files.py", ("which files are its share",)),
                Room("datasets", "src/datasets", ("a thread decodes ahead",)),
            ),
        ),
        Frame(
            500,
            16,
            222,
            "Python: tfos.records",
            (
                Room("records_api", "python/tfos/records", ("files as Arrow; tfos records",)),
                Room("bind", "src/python/bind", ("the extension",)),
            ),
        ),
        Frame(
            742,
            16,
            222,
            "Spark's JVM: tfrecord",
            (
                Room("format", "tfos.internal.records", ("the format for DataFrames",)),
                Room(
                    "jni", "src/jvm", ("JNI; its bytes go through", "Hadoop's streams of this JVM")
                ),
            ),
        ),
        Frame(
            258,
            240,
            706,
            "the same native libraries in each process",
            (
                Room(
                    "records",
                    "src/records",
                    ("TFRecord, tf.Example, schemas, indexes, to and from Arrow",),
                ),
                Room("files", "src/files", ("a URI is Hadoop's, any other path is this host's",)),
            ),
        ),
        Frame(
            16,
            432,
            464,
            "Java in the process, started by the first such path",
            (
                Room(
                    "hadoop",
                    "src/hadoop",
                    ("Hadoop's own FileSystem through JNI: HDFS, viewfs, s3a",),
                ),
            ),
        ),
        Frame(
            500,
            432,
            464,
            "this host",
            (Room("local", "src/records/files/file_store.cc", ("files without a scheme",)),),
        ),
    ),
    (
        Arrow("gfile", "plugin"),
        Arrow("plugin", "hadoop"),
        Arrow("tfrecords", "datasets"),
        Arrow("datasets", "records"),
        Arrow("records_api", "bind"),
        Arrow("bind", "records"),
        Arrow("format", "jni"),
        Arrow("jni", "records"),
        Arrow("records", "files", ("opens files through it",)),
        Arrow("files", "hadoop"),
        Arrow("files", "local"),
    ),
)

FLOWS = (CONTROL, FEED, TENSORS, FILES)
