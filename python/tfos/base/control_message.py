"""Control messages as Python writes them (docs/formats/control-protocol.md).

What Python takes from the operating system (names of files, the environment) may hold bytes that
are not UTF-8. It keeps each as an unpaired surrogate, which JSON can't say and no other side reads.
So texts for people are made readable here, and what must arrive byte by byte travels as such.
"""

from __future__ import annotations

import json
import os
from typing import Any

#: The most characters of a text for people, by the name of its field. A message that holds one of
#: each stays far below the protocol's limit, whatever its characters are.
LONGEST_TEXTS = {"message": 1 << 14, "detail": 1 << 14, "reason": 1 << 14, "traceback": 1 << 18}


def encode(message_type: str, **fields: Any) -> str:
    """One message as a line of JSON, without its line feed; every text in it is readable."""
    return json.dumps({"type": message_type, **_sendable(fields)}, ensure_ascii=False)


def readable(text: str, longest: int | None = None) -> str:
    """``text`` with ``\\udce9`` in place of other than characters, and without its middle when it
    has more than ``longest`` characters: a traceback says most at both ends."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if longest is None or len(text) <= longest:
        return text
    kept = longest // 2 - 50
    return f"{text[:kept]}\n... {len(text) - 2 * kept} characters are left out ...\n{text[-kept:]}"


def as_bytes(text: str) -> str:
    """``text`` as the operating system has it, for a field of bytes: one character for each."""
    return os.fsencode(text).decode("latin-1")


def _sendable(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return readable(value, LONGEST_TEXTS.get(name))
    if isinstance(value, dict):
        return {readable(key): _sendable(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value
