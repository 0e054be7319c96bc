"""Writes docs/settings.md from python/tfos/settings.py; with --check only compares."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from tfos.settings import SETTINGS  # noqa: E402

PAGE = ROOT / "docs" / "settings.md"

HEAD = """# Settings

Set a Spark configuration key (`--conf spark.tfos.feed.memory=134217728`), or pass its keyword to `tfos.run`
(`feed_memory=134217728`). The keyword takes precedence. Sizes may have a unit,
such as `256m` or `1g`; so may times, such as `500ms`, `30s` or `10min`. `tfos doctor --settings` prints keys, defaults and meanings.

This page is made from python/tfos/settings.py by `.venv/bin/python tools/pages/settings_page.py`.

| key | keyword | default | unit | meaning |
|---|---|---|---|---|
"""  # noqa: E501  (lines of the page)


def page():
    return HEAD + "".join(
        f"| `{s.key}` | {code(s.keyword)} | {code(s.default)} | {s.unit} | {s.meaning} |\n"
        for s in SETTINGS
    )


def code(value):
    """A value as Markdown shows code; nothing for an empty one."""
    return "" if value in ("", None) else f"`{value}`"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} differs from the settings: run {sys.argv[0]}")
    else:
        PAGE.write_text(page())
