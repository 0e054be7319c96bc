"""Draws docs/images/performance.svg, the README's chart, from the tables of docs/performance.md.

    .venv/bin/python tools/pages/performance_chart.py [--check]

With --check it only compares. Every bar is a number of the page, so a new measurement there needs
a new chart here, and no number is typed in by hand.
"""

import re
import sys

from drawn_chart import PAGE, ROOT, write_or_check

IMAGE = ROOT / "docs" / "images" / "performance.svg"

NUMBER = r"([\d,]+(?:\.\d+)?)"
#: Title, unit, and the bars: label, and where the number is in the page.
PANELS = (
    (
        "Feed a DataFrame",
        "rows a second, more is better",
        (
            ("tfos", rf"\(DataFrame\), against 2\.2\.5 \| {NUMBER} rows/s"),
            (
                "tensorflowonspark 2.2.5",
                rf"\(DataFrame\), against 2\.2\.5 \| [^|]* \| {NUMBER} rows/s",
            ),
        ),
    ),
    (
        "Score a DataFrame",
        "rows a second, more is better",
        (
            ("tfos", rf"JVMs, against `predict_batch_udf` \| {NUMBER}"),
            ("predict_batch_udf", rf"JVMs, against `predict_batch_udf` \| [^|]* \| {NUMBER}"),
            ("tensorflowonspark 2.2.5", rf"JVMs, against 2\.2\.5 [^|]*\| [^|]* \| {NUMBER}"),
        ),
    ),
    (
        "Train on two nodes",
        "milliseconds a step, less is better",
        (
            ("ctx.distribute", rf"dense, [^|]* \| ctx\.distribute \| {NUMBER}"),
            (
                "MultiWorkerMirroredStrategy",
                rf"dense, [^|]* \| MultiWorkerMirroredStrategy \| {NUMBER}",
            ),
        ),
    ),
    (
        "Read TFRecords in Spark",
        "rows a second, more is better",
        (
            ("tfos", rf"read: an image [^|]* \| tfos \| {NUMBER} rows/s"),
            (
                "tf.train.Example in Python",
                rf"read: an image [^|]* \| tfos \| [^|]* \| {NUMBER} rows/s",
            ),
        ),
    ),
)

WIDTH, PANEL_WIDTH, PANEL_HEIGHT, MARGIN = 860, 400, 142, 20
BAR, STEP, LONGEST = 14, 34, 300


def panel(page, x, y, title, unit, bars):
    """The lines of SVG of one panel; the first bar is tfos."""
    values = []
    for label, pattern in bars:
        found = re.search(pattern, page)
        if not found:
            sys.exit(f"{PAGE.name} has no number for {label!r} of {title!r}: its table has changed")
        values.append(float(found[1].replace(",", "")))
    yield f'<text x="{x}" y="{y + 14}" class="title">{title}</text>'
    right = x + PANEL_WIDTH - MARGIN
    yield f'<text x="{right}" y="{y + 14}" class="unit" text-anchor="end">{unit}</text>'
    for place, ((label, _), value) in enumerate(zip(bars, values, strict=True)):
        top = y + 24 + place * STEP
        width = max(LONGEST * value / max(values), 1.5)
        shown = f"{value:,.0f}"
        yield (
            f'<rect x="{x}" y="{top + 13}" width="{width:.1f}" height="{BAR}" rx="2" '
            f'class="{"tfos" if place == 0 else "rival"}"/>'
        )
        yield f'<text x="{x}" y="{top + 9}" class="label">{label}</text>'
        yield f'<text x="{x + width + 6:.1f}" y="{top + 24}" class="value">{shown}</text>'


def chart(page):
    height = 2 * PANEL_HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="What tfos and others take for feeding, scoring, training and TFRecords">',
        "<style>text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f}"
        ".title{font-weight:600;font-size:14px}.unit{fill:#57606a;font-size:11px}"
        ".tfos{fill:#0969da}.rival{fill:#afb8c1}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for place, (title, unit, bars) in enumerate(PANELS):
        x = MARGIN + place % 2 * (WIDTH // 2)
        y = MARGIN + place // 2 * PANEL_HEIGHT
        lines += panel(page, x, y, title, unit, bars)
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    write_or_check(IMAGE, chart)
