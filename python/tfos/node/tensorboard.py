"""``tfos tensorboard``: TensorBoard, which then reads ``hdfs://`` and what else Hadoop reaches.

``python -m tfos.node.tensorboard`` takes TensorBoard's own arguments. Nodes run it so, too.
"""

from __future__ import annotations

import sys

from tfos.errors import TfosError
from tfos.files import hadoop_settings

_USAGE = """\
Run TensorBoard over a directory, here or on HDFS
Usage: tfos tensorboard [OPTIONS]

Options:
  --logdir DIRECTORY          What to show, such as hdfs:///user/me/logs
  --port PORT                 Where to listen
  -h, --help                  Print TensorBoard's own options, all of which it takes

It can't run yet: {why}"""


def _missing(error: Exception) -> str:
    """What an import lacks, by the name of its package."""
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in ("tensorboard", "tensorflow"):
        return str(error)
    name = {"tensorboard": "TensorBoard", "tensorflow": "TensorFlow"}[package]
    return f"{name} is missing: {sys.executable} -m pip install {package}"


def main() -> None:
    """Becomes TensorBoard, with the arguments of this process."""
    hadoop_settings.hide_secrets()
    try:
        from tensorboard import main as tensorboard
        from tensorboard import manager

        import tfos.tensorflow  # noqa: F401  (registers the schemes)
    except (ImportError, TfosError) as error:
        if {"-h", "--help", "--helpfull"} & set(sys.argv[1:]):
            print(_USAGE.format(why=_missing(error)))
            return
        sys.exit(f"tfos tensorboard: {_missing(error)}")
    # For notebooks it describes itself in a file whose name is known before, in a folder that any
    # user can make: a link there would have it write over a file of this user.
    setattr(manager, "write_info_file", lambda info: None)  # noqa: B010
    setattr(manager, "remove_info_file", lambda: None)  # noqa: B010
    # Its fast loader is a process of its own, which knows no file system but the host's.
    sys.argv.insert(1, "--load_fast=false")
    tensorboard.run_main()


if __name__ == "__main__":
    main()
