"""``tfos tensorboard`` and the TensorBoard beside a node, as other users of the host see them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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


def without(package, folder, *words):
    """Runs the command where ``package`` is not installed."""
    (folder / "sitecustomize.py").write_text(
        f"import sys\nclass Hide:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {package!r}:\n"
        f"            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "tfos.node.tensorboard", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )


@pytest.mark.parametrize(
    ("package", "name"), [("tensorboard", "TensorBoard"), ("tensorflow", "TensorFlow")]
)
def test_what_is_missing_is_named_and_help_is_there_without_it(tmp_path, package, name):
    said = f"{name} is missing: {sys.executable} -m pip install {package}"
    failed = without(package, tmp_path, "--logdir", "/nowhere")
    assert failed.returncode == 1
    assert failed.stderr == f"tfos tensorboard: {said}\n"
    shown = without(package, tmp_path, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "Usage: tfos tensorboard" in shown.stdout
    assert said in shown.stdout
