"""A notebook with its outputs as a page of the site."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

#: Around a text, so that nothing in it ends the block.
_FENCE = "````"


def markdown_of(notebook: str) -> str:
    """The Markdown of a notebook's text in JSON: each cell, and below it what it has shown."""
    parts: list[str] = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"{_FENCE}python\n{source}\n{_FENCE}")
            parts += (shown for output in cell["outputs"] for shown in _shown(output))
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> Iterator[str]:
    kind, data = output["output_type"], output.get("data", {})
    if kind == "error":
        yield _text("\n".join(output["traceback"]))
    elif kind == "stream":
        yield _text("".join(output["text"]))
    elif "text/html" in data:
        # Without blank lines and indents, which would end it, or make code of it.
        html = re.sub(r"\s*\n\s*", "\n", "".join(data["text/html"]))
        yield f'<div class="output">\n{html}\n</div>'
    elif "text/plain" in data:
        yield _text("".join(data["text/plain"]))


def _text(text: str) -> str:
    return f"{_FENCE}text\n{text.rstrip()}\n{_FENCE}"
