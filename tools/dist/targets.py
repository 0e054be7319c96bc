"""What a release is built for: the processors, and the oldest C library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
#: The glibc that TensorFlow's own wheels need: a host that can load those can load ours.
GLIBC = "2.27"


@dataclass(frozen=True)
class Target:
    """A processor, and how each tool names what belongs to it."""

    machine: str
    #: The name of the processor's family in Zig's folders of headers.
    zig_headers: str
    #: OpenSSL's name of it, as its ./Configure takes it.
    openssl: str
    #: In the names of the jars of CPython.
    cpython: str

    @property
    def triple(self) -> str:
        return f"{self.machine}-linux-gnu"

    @property
    def platform_tag(self) -> str:
        return f"manylinux_{GLIBC.replace('.', '_')}_{self.machine}"


TARGETS = {
    target.machine: target
    for target in (
        Target("x86_64", "x86", "linux-x86_64", "linux-x86_64"),
        Target("aarch64", "aarch64", "linux-aarch64", "linux-arm64"),
    )
}
