"""``tfos tensorboard`` and the TensorBoard beside a node, as other users of the host see them."""

from __future__ import annotations

import os
import subprocess
import sys

from support.waiting import wait_for

BOUND_SECONDS = 120


def test_tensorboard_writes_to_no_place_that_another_user_can_prepare(tmp_path):
    """TensorBoard itself writes a file of a known name below the folder for temporary files, where
    anybody can be first."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("of this user")
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    # Its number, and with it the name, is known once it runs.
    start = 'read line <"$0" && exec "$@"'
    command = [sys.executable, "-m", "tfos.node.tensorboard", "--port", "0", "--logdir"]
    log = tmp_path / "log"
    with log.open("w") as output:
        tensorboard = subprocess.Popen(
            ["sh", "-c", start, ready, *command, tmp_path],
            stdout=output,
            stderr=output,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
    try:
        place = temporary / ".tensorboard-info"
        place.mkdir()
        (place / f"pid-{tensorboard.pid}.info").symlink_to(precious)
        ready.write_text("go\n")
        wait_for(lambda: "(Press CTRL+C to quit)" in log.read_text(), log.read_text)
    finally:
        tensorboard.terminate()
        tensorboard.wait(BOUND_SECONDS)
    assert precious.read_text() == "of this user"
    assert sorted(os.listdir(temporary)) == [".tensorboard-info"]
