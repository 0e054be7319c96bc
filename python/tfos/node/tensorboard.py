"""``tfos tensorboard``: TensorBoard, which then reads ``hdfs://`` and what else Hadoop reaches.

``python -m tfos.node.tensorboard`` takes TensorBoard's own arguments. Nodes run it so, too.
"""

from __future__ import annotations

import sys

from tfos.errors import TfosError


def main() -> None:
    """Becomes TensorBoard, with the arguments of this process."""
    try:
        from tensorboard import main as tensorboard
        from tensorboard import manager

        import tfos.tensorflow  # noqa: F401  (registers the schemes)
    except ImportError as error:
        sys.exit(
            f"tfos tensorboard: {error}; install tensorflow and tensorboard for {sys.executable}"
        )
    except TfosError as error:
        sys.exit(f"tfos tensorboard: {error}")
    # For notebooks it describes itself in a file whose name is known before, in a folder that any
    # user can make: a link there would have it write over a file of this user.
    setattr(manager, "write_info_file", lambda info: None)  # noqa: B010
    setattr(manager, "remove_info_file", lambda: None)  # noqa: B010
    # Its fast loader is a process of its own, which knows no file system but the host's.
    sys.argv.insert(1, "--load_fast=false")
    tensorboard.run_main()


if __name__ == "__main__":
    main()
