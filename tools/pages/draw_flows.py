"""Draws the pictures of docs/architecture.md: one SVG for each of the four flows.

    python tools/pages/draw_flows.py [--check]

With --check it only compares. A picture is a list of processes, each a frame with the rooms that
the flow crosses in it, and a list of arrows between rooms. Heights and lines follow from those.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"

MARGIN, PADDING, TITLE, LINE = 16, 12, 28, 15
#: Between two rooms of a frame: room for an arrow and a word beside it.
STEP = 34
#: The half of what an arrow's head is wide, and its length.
HEAD = 4, 8


@dataclass
class Room:
    """A folder or file, and what it does here. The key is what arrows call it."""

    key: str
    path: str
    notes: tuple[str, ...] = ()
    x: int = 0
    y: int = 0
    width: int = 0

    @property
    def height(self) -> int:
        return PADDING + LINE * (1 + len(self.notes))


@dataclass
class Frame:
    """A process, or a host, with rooms from top to bottom."""

    x: int
    y: int
    width: int
    title: str
    rooms: tuple[Room, ...]

    @property
    def height(self) -> int:
        rooms = sum(room.height for room in self.rooms)
        return TITLE + rooms + STEP * (len(self.rooms) - 1) + PADDING

    def place(self) -> None:
        y = self.y + TITLE
        for room in self.rooms:
            room.x, room.y, room.width = self.x + PADDING, y, self.width - 2 * PADDING
            y += room.height + STEP


@dataclass
class Arrow:
    """From a room to another. `shift` moves it sideways, for arrows that would share a line."""

    begin: str
    end: str
    label: tuple[str, ...] = ()
    both: bool = False
    shift: int = 0


@dataclass
class Picture:
    """One flow. `about` is what a reader who cannot see it is told."""

    name: str
    about: str
    frames: tuple[Frame, ...]
    arrows: tuple[Arrow, ...]
    rooms: dict[str, Room] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for frame in self.frames:
            frame.place()
            self.rooms.update({room.key: room for room in frame.rooms})


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
                Room("api", "python/tfos/collective.py", ("all_reduce, broadcast",)),
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

PICTURES = (CONTROL, FEED, TENSORS, FILES)


def _text(x: float, y: float, kind: str, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _head(x: float, y: float, dx: int, dy: int) -> str:
    """A triangle whose point is at (x, y), and that points to (dx, dy)."""
    half, length = HEAD
    back_x, back_y = x - dx * length, y - dy * length
    points = (
        f"{x:g},{y:g} {back_x + dy * half:g},{back_y + dx * half:g} "
        f"{back_x - dy * half:g},{back_y - dx * half:g}"
    )
    return f'<polygon points="{points}" class="head"/>'


def _draw_arrow(arrow: Arrow, rooms: dict[str, Room]) -> Iterator[str]:
    begin, end = rooms[arrow.begin], rooms[arrow.end]
    is_vertical = begin.x < end.x + end.width and end.x < begin.x + begin.width
    if is_vertical:
        down = 1 if begin.y < end.y else -1
        left, right = max(begin.x, end.x), min(begin.x + begin.width, end.x + end.width)
        x = (left + right) / 2 + arrow.shift
        first = begin.y + begin.height if down > 0 else begin.y
        last = end.y if down > 0 else end.y + end.height
        yield f'<path d="M{x:g} {first:g}V{last:g}" class="line"/>'
        yield _head(x, last, 0, down)
        if arrow.both:
            yield _head(x, first, 0, -down)
        crosses_frames = abs(last - first) > STEP
        y = min(first, last) + (PADDING + 20 if crosses_frames else 21)
        for number, line in enumerate(arrow.label):
            yield _text(x + 8, y + LINE * number, "label", line)
        return
    right = 1 if begin.x < end.x else -1
    first = begin.x + begin.width if right > 0 else begin.x
    last = end.x if right > 0 else end.x + end.width
    y, to_y = begin.y + begin.height / 2 + arrow.shift, end.y + end.height / 2 + arrow.shift
    if abs(y - to_y) < 16:
        to_y = y = max(begin.y, end.y) + min(begin.height, end.height) / 2 + arrow.shift
    middle = (first + last) / 2
    yield f'<path d="M{first:g} {y:g}H{middle:g}V{to_y:g}H{last:g}" class="line"/>'
    yield _head(last, to_y, right, 0)
    if arrow.both:
        yield _head(first, y, -right, 0)
    for number, line in enumerate(arrow.label):
        # On the side of the line that the bend leaves free.
        top = y + LINE if to_y < y else y - 6 - LINE * (len(arrow.label) - 1)
        yield _text(middle, top + LINE * number, "label", line, "middle")


def draw(picture: Picture) -> str:
    width = max(frame.x + frame.width for frame in picture.frames) + MARGIN
    height = max(frame.y + frame.height for frame in picture.frames) + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(picture.about)}">',
        # A ground of its own, so that the picture is legible on a dark page, too.
        "<style>text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f}"
        ".title{font-weight:600;font-size:13px;paint-order:stroke;stroke:#f6f8fa;stroke-width:4px}.label{font-size:11.5px;fill:#0550ae}"
        ".path{font-family:ui-monospace,monospace;font-size:11.5px;font-weight:600}"
        ".ground{fill:#ffffff}.frame{fill:#f6f8fa;stroke:#8c959f}"
        ".room{fill:#ddf4ff;stroke:#0969da}"
        ".line{fill:none;stroke:#0550ae;stroke-width:1.5}.head{fill:#0550ae}</style>",
        f'<rect width="{width}" height="{height}" rx="6" class="ground"/>',
    ]
    for frame in picture.frames:
        lines.append(
            f'<rect x="{frame.x}" y="{frame.y}" width="{frame.width}" '
            f'height="{frame.height}" rx="6" class="frame"/>'
        )
        for room in frame.rooms:
            lines.append(
                f'<rect x="{room.x}" y="{room.y}" width="{room.width}" '
                f'height="{room.height}" rx="4" class="room"/>'
            )
            lines.append(_text(room.x + 8, room.y + 17, "path", room.path))
            lines += [
                _text(room.x + 8, room.y + 17 + LINE * number, "note", note)
                for number, note in enumerate(room.notes, 1)
            ]
    for arrow in picture.arrows:
        lines += _draw_arrow(arrow, picture.rooms)
    # Over the arrows that enter a frame from above.
    lines += [
        _text(frame.x + PADDING, frame.y + 18, "title", frame.title) for frame in picture.frames
    ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    differing = []
    for picture in PICTURES:
        image = IMAGES / f"{picture.name}.svg"
        drawn = draw(picture)
        if "--check" not in sys.argv[1:]:
            image.write_text(drawn)
        elif not image.exists() or image.read_text() != drawn:
            differing.append(
                f"{image.relative_to(ROOT)} is not what tools/pages/draw_flows.py draws: run it"
            )
    print("\n".join(differing), end="\n" if differing else "")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
