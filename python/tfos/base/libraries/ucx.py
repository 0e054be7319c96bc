"""Where the UCX of the package ``libucx-cu12`` is, which the extra ``rdma`` installs."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def packaged() -> str:
    """The file of libucp of the package ``libucx-cu12``; "" where that is not installed. The
    package is not imported: that would load its libraries with what they do to signals."""
    spec = importlib.util.find_spec("libucx")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        library = Path(folder) / "lib" / "libucp.so.0"
        if library.is_file():
            return str(library)
    return ""
