"""A flow between processes as a picture in SVG.

A picture is a list of processes, each a frame with the rooms that the flow crosses in it, and a
list of arrows between rooms. Heights and lines follow from those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

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
