"""Draws docs/images/feed_rates.svg, the rates of feeding by kind of row, from docs/performance.md.

    .venv/bin/python tools/pages/feed_chart.py [--check]

With --check it only compares. Every bar is a ratio of the table of bench/feed/dataset.py, and
every rate beside it is one of that table, so a new measurement there needs a new figure here.
"""

import dataclasses
import re
import sys

from drawn_chart import PAGE, ROOT, write_or_check

IMAGE = ROOT / "docs" / "images" / "feed_rates.svg"

#: Kinds of rows by the first cell of the table, as the figure calls them.
KINDS = {
    "array of 784 float, int (DataFrame)": "DataFrame: array of 784 floats, int",
    "(list of 784 floats, label)": "RDD: list of 784 floats, label",
    "(NumPy array of 784 float64, label)": "RDD: NumPy array of 784, label",
    "bytes of 100 KiB": "RDD: bytes of 100 KiB",
    "int": "RDD: int",
}
WORKERS = ", by Python workers"
RATE = re.compile(r"([\d,]+) rows/s")
RATIO = re.compile(r"\*\*([\d.]+)\*\* \(([\d.]+) to ([\d.]+)\)")

MARGIN, LABELS, LONGEST, VALUES = 20, 225, 400, 195
WIDTH = 2 * MARGIN + LABELS + LONGEST + VALUES
BAR, GAP, GROUP, TITLE, KEYS = 14, 3, 14, 26, 26


@dataclasses.dataclass(frozen=True)
class Fed:
    """How fast rows of a kind were fed: rows a second, those of the bare pass, and the ratio with
    its least and most."""

    rate: str
    bare: str
    ratio: float
    least: float
    most: float


def measured(page):
    """{first cell: Fed} of the rows that the figure shows."""
    part = page.partition("<!-- bench/feed/dataset.py -->")[2].partition("<!-- end -->")[0]
    found = {}
    for line in re.findall(r"(?m)^\| (.+) \|$", part):
        name, *cells = [cell.strip() for cell in line.split("|")]
        if name.removesuffix(WORKERS) in KINDS:
            (rate, bare), ratio = [RATE.fullmatch(cell)[1] for cell in cells[:2]], cells[2]
            found[name] = Fed(rate, bare, *map(float, RATIO.fullmatch(ratio).groups()))
    if found.keys() != {kind + mark for kind in KINDS for mark in ("", WORKERS)}:
        sys.exit(f"{PAGE.name} lacks rates of feeding: its table has changed")
    return found


def chart(page):
    rows = measured(page)
    scale = LONGEST / max(fed.most for fed in rows.values())
    left, top = MARGIN + LABELS, MARGIN + TITLE + KEYS
    bottom = top + len(KINDS) * (2 * (BAR + GAP) + GROUP - GAP)
    lines = [
        f'<text x="{MARGIN}" y="{MARGIN + 12}" class="title">'
        "Feeding ctx.dataset, compared with a pass of Spark alone over the same rows</text>"
    ]
    for x, style, label in (
        (left, "jar", "by the executors' JVMs, with the jar of tfos"),
        (left + 280, "workers", "by Python workers"),
        (left + 420, "", "lines: from least to most"),
    ):
        if style:
            lines.append(
                f'<rect x="{x}" y="{MARGIN + TITLE}" width="12" height="12" class="{style}"/>'
            )
        y = MARGIN + TITLE + 10
        lines.append(f'<text x="{x + 17}" y="{y}" class="unit">{label}</text>')
    for times in range(4):
        x = left + times * scale
        mark = "bare" if times == 1 else "mark"
        lines.append(f'<path d="M{x:.1f} {top - 4}V{bottom}" class="{mark}"/>')
        said = "Spark alone" if times == 1 else f"{times}x"
        lines.append(
            f'<text x="{x:.1f}" y="{bottom + 14}" class="unit" text-anchor="middle">{said}</text>'
        )
    y = top
    for kind, label in KINDS.items():
        lines.append(
            f'<text x="{left - 10}" y="{y + BAR + GAP + 2}" class="label" text-anchor="end">'
            f"{label}</text>"
        )
        for mark, style in (("", "jar"), (WORKERS, "workers")):
            lines += bar(left, y, scale, style, rows[kind + mark])
            y += BAR + GAP
        y += GROUP - GAP
    height = bottom + 14 + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-label="Rates of feeding rows of five kinds, by the JVMs of executors and by '
            'Python workers, as multiples of a bare pass of Spark over the same rows">',
            "<style>text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f}"
            ".title{font-weight:600;font-size:14px}.unit{fill:#57606a;font-size:11px}"
            ".mark{stroke:#d0d7de;fill:none}.bare{stroke:#57606a;fill:none;stroke-dasharray:4 3}"
            ".range{stroke:#24292f;fill:none}.jar{fill:#0969da}.workers{fill:#9ec9f5}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *lines,
            "</svg>",
            "",
        ]
    )


def bar(left, y, scale, style, fed):
    middle = y + BAR / 2
    least, most = left + fed.least * scale, left + fed.most * scale
    yield (
        f'<rect x="{left}" y="{y}" width="{fed.ratio * scale:.1f}" height="{BAR}" class="{style}"/>'
    )
    yield (
        f'<path d="M{least:.1f} {middle}H{most:.1f}M{least:.1f} {middle - 4}v8'
        f'M{most:.1f} {middle - 4}v8" class="range"/>'
    )
    end = max(most, left + scale) + 8
    yield f'<text x="{end:.1f}" y="{middle + 4}">{fed.rate} rows/s ({fed.ratio:.2f}x)</text>'


if __name__ == "__main__":
    write_or_check(IMAGE, chart)
