"""Draws docs/images/recovery.svg, the figure of a lost node, from its table in docs/performance.md.

    .venv/bin/python tools/pages/recovery_chart.py [--check]

With --check it only compares. Every bar and every range is a number of the page, so a new
measurement there needs a new figure here, and no number is typed in by hand.
"""

import dataclasses
import math
import re
import sys

from drawn_chart import PAGE, ROOT, write_or_check

IMAGE = ROOT / "docs" / "images" / "recovery.svg"

#: Label and style of each row of the table, by its first cell.
ROWS = {
    "killed": ("tfos, a node killed", "tfos"),
    "frozen": ("tfos, a node frozen", "tfos"),
    "cut": ("tfos, a link cut", "tfos"),
    "killed, Ray Train": ("Ray Train, a worker killed", "rival"),
}

MARGIN, LABELS, LONGEST, VALUES = 20, 170, 500, 170
WIDTH = 2 * MARGIN + LABELS + LONGEST + VALUES
BAR, STEP, TITLE = 16, 30, 34
AXIS = 5  # Seconds between two marks.


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds: a median, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def parse(cls, cell):
        found = re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", cell)
        return cls(*map(float, found.groups())) if found else None


def measured(page):
    """By the first cell: next step, trains again, and of it in the program, if that is known; and
    the seconds after which a frozen node is lost."""
    part = page.partition("<!-- bench/recovery/lost_node.py -->")[2].partition("<!-- end -->")[0]
    silence = re.search(r"lost after (\d+) s without an answer", part)
    rows = {}
    for line in re.findall(r"(?m)^\| (.+) \|$", part):
        name, _, *times = [cell.strip() for cell in line.split("|")]
        if name in ROWS:
            rows[name] = [Times.parse(cell) for cell in times]
    if not silence or rows.keys() != ROWS.keys() or None in (row[1] for row in rows.values()):
        sys.exit(f"{PAGE.name} lacks numbers of a lost node: its table has changed")
    return rows, float(silence[1])


class Figure:
    """Its lines of SVG, from top to bottom."""

    def __init__(self, longest):
        self._scale = LONGEST / longest
        self._longest = longest
        self._lines = []
        self._y = MARGIN

    def panel(self, title, keys, bars):
        """keys: (class, label). bars: (label, Times, [(class, seconds), ...])."""
        left = MARGIN + LABELS
        self._add(f'<text x="{MARGIN}" y="{self._y + 14}" class="title">{title}</text>')
        x = left + LONGEST + VALUES
        for style, label in reversed(keys):
            x -= 26 + 6 * len(label)
            self._add(
                f'<rect x="{x}" y="{self._y + 4}" width="12" height="12" class="{style}"/>'
                f'<text x="{x + 17}" y="{self._y + 14}" class="unit">{label}</text>'
            )
        self._y += TITLE
        bottom = self._y + len(bars) * STEP
        for seconds in range(0, math.floor(self._longest) + 1, AXIS):
            x = left + seconds * self._scale
            self._add(f'<path d="M{x:.1f} {self._y - 4}V{bottom}" class="mark"/>')
            self._add(
                f'<text x="{x:.1f}" y="{bottom + 15}" class="unit" text-anchor="middle">'
                f"{seconds} s</text>"
            )
        for label, times, parts in bars:
            self._bar(left, label, times, parts)
        self._y += 36

    def _bar(self, left, label, times, parts):
        middle = self._y + BAR / 2
        self._add(
            f'<text x="{left - 10}" y="{middle + 4}" class="label" text-anchor="end">{label}</text>'
        )
        x = left
        for style, seconds in parts:
            width = max(seconds * self._scale, 1.5)
            self._add(
                f'<rect x="{x:.1f}" y="{self._y}" width="{width:.1f}" height="{BAR}" '
                f'class="{style}"/>'
            )
            x += width
        least, most = (left + value * self._scale for value in (times.least, times.most))
        self._add(
            f'<path d="M{least:.1f} {middle}H{most:.1f}M{least:.1f} {middle - 4}v8'
            f'M{most:.1f} {middle - 4}v8" class="range"/>'
        )
        shown = f"{times.median:.2f} s ({times.least:.2f} to {times.most:.2f})"
        end = max(most, x) + 8
        self._add(f'<text x="{end:.1f}" y="{middle + 4}" class="value">{shown}</text>')
        self._y += STEP

    def _add(self, line):
        self._lines.append(line)

    def svg(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._y}" role="img" '
            'aria-label="Seconds from the loss of a node to the next step of the others, and to '
            'its own next step, with tfos and with Ray Train">',
            "<style>text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f}"
            ".title{font-weight:600;font-size:14px}.unit{fill:#57606a;font-size:11px}"
            ".mark{stroke:#d0d7de;fill:none}.range{stroke:#24292f;fill:none}"
            ".tfos{fill:#0969da}.wait{fill:#9ec9f5}.rival{fill:#afb8c1}</style>",
            f'<rect width="{WIDTH}" height="{self._y}" fill="#ffffff"/>',
        )
        return "\n".join([*head, *self._lines, "</svg>", ""])


def chart(page):
    rows, silence = measured(page)
    figure = Figure(max(row[1].most for row in rows.values()))
    others, again = [], []
    for name, (step, whole, program) in rows.items():
        label, style = ROWS[name]
        if name in ("frozen", "cut"):
            others.append((label, step, [("wait", silence), (style, step.median - silence)]))
        else:
            others.append((label, step, [(style, step.median)]))
        if program:
            parts = [("wait", whole.median - program.median), (style, program.median)]
            again.append((label, whole, parts))
        else:
            again.append((label, whole, [(style, whole.median)]))
    figure.panel(
        "Until the others make their next step",
        [("wait", f"the {silence:.0f} s after which a silent node is lost"), ("tfos", "the rest")],
        others,
    )
    figure.panel(
        "Until the lost one trains again",
        [("wait", "ending it, starting Python"), ("tfos", "its program, to the end of a step")],
        again,
    )
    return figure.svg()


if __name__ == "__main__":
    write_or_check(IMAGE, chart)
