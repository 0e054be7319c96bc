"""What crosses a network, recorded and put together as the streams of bytes that it was."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import subprocess


@contextlib.contextmanager
def captured(address, directory):
    """Records all packets from and to `address` on any interface, until the block ends.

    Yields a function that returns the bytes of each TCP connection's direction; call it after the
    block.
    """
    packets = pathlib.Path(directory, "packets.pcap")
    command = ["tcpdump", "-i", "any", "-n", "-U", "-s", "0", "-B", "65536", "-w", str(packets)]
    recorder = subprocess.Popen([*command, "host", address], stderr=subprocess.PIPE, text=True)
    try:
        for line in recorder.stderr:
            if "listening on" in line:
                break
        else:
            raise AssertionError(f"tcpdump ended with {recorder.wait()}")
        yield lambda: _streams(packets, pathlib.Path(directory, "streams"))
    finally:
        recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate()
    assert "\n0 packets dropped by kernel" in said, said


def _streams(packets, directory):
    directory.mkdir()
    subprocess.run(
        ["tcpflow", "-r", str(packets), "-o", str(directory), "-a", "-e", "tcpdemux"],
        check=True,
        capture_output=True,
    )
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix != ".xml"}
