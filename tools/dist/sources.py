"""What a release is built from beside this repository and Debian's headers: pinned, with hashes."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

CRATES = "https://static.crates.io/crates"
MAVEN = "https://repo1.maven.org/maven2"


@dataclass(frozen=True)
class Source:
    """A file of a package registry."""

    name: str
    version: str
    url: str
    sha256: str
    licence: str

    def fetch(self, folder: Path) -> Path:
        """Downloads it into ``folder``, if it isn't there, and unpacks it; returns the folder of
        its content. A file with another hash is deleted and refused."""
        content = folder / self.name
        mark = content / self.sha256
        if mark.exists():
            return content
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.download"
        print(f"Downloading {self.url}", flush=True)
        with urllib.request.urlopen(self.url, timeout=60) as response, file.open("wb") as out:
            shutil.copyfileobj(response, out)
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != self.sha256:
            file.unlink()
            raise RuntimeError(f"{self.url} has the SHA-256 {found}, and not {self.sha256}")
        shutil.rmtree(content, ignore_errors=True)
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                archive.extractall(content)
        else:
            with tarfile.open(file) as archive:
                archive.extractall(content, filter="data")
        file.unlink()
        mark.touch()
        return content


#: The newest line with long-term support, as the crate that builds it for Rust carries it.
OPENSSL = Source(
    "openssl",
    "3.5.5",
    f"{CRATES}/openssl-src/openssl-src-300.5.5+3.5.5.crate",
    "3f1787d533e03597a7934fd0a765f0d28e94ecc5fb7789f8053b1e699a56f709",
    "Apache-2.0",
)
ZLIB = Source(
    "zlib",
    "1.3.2",
    f"{CRATES}/libz-sys/libz-sys-1.1.31.crate",
    "ff20308ecabd635a2dc1dd5834a86c462cca20efba1d5d3ddab1f8aea3455cb2",
    "Zlib",
)
#: The curves of the coordinator's page. What is used of it is in src/control/page/uplot.
UPLOT = Source(
    "uPlot",
    "1.6.32",
    "https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz",
    "4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d",
    "MIT",
)


def _cpython(version: str, jar: str, machine: str, sha256: str) -> Source:
    url = f"{MAVEN}/org/bytedeco/cpython/{jar}/cpython-{jar}-{machine}.jar"
    return Source(f"cpython-{version}-{machine}", version, url, sha256, "PSF-2.0")


#: CPython's headers, and interpreters to try wheels with on old systems. Not part of a release.
CPYTHON = {
    ("3.11", "linux-x86_64"): _cpython(
        "3.11",
        "3.11.3-1.5.9",
        "linux-x86_64",
        "668b42f6a8b1a9789de7d3ca54a81fefb754cd8e885554b42858bbcbc0dd497c",
    ),
    ("3.11", "linux-arm64"): _cpython(
        "3.11",
        "3.11.3-1.5.9",
        "linux-arm64",
        "c98d023d4f79bdae2fb8973443324e48bb39e5b8f149a24e9d0317eb165d7925",
    ),
    ("3.12", "linux-x86_64"): _cpython(
        "3.12",
        "3.12.1-1.5.10",
        "linux-x86_64",
        "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd",
    ),
    ("3.12", "linux-arm64"): _cpython(
        "3.12",
        "3.12.1-1.5.10",
        "linux-arm64",
        "4876e6a9eb45c4e2faf7c9f9ef8cb9f16a462c45c3440d4c2e15e6acc8f4e0df",
    ),
}
