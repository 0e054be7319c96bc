"""Writes what the binaries of a release consist of: an SBOM (CycloneDX 1.6) and the licences."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sources import OPENSSL, UPLOT, ZLIB, Source
from wheels import ROOT

BUILD = ROOT / "build" / "dist"


@dataclass(frozen=True)
class Package:
    """What comes from a package of Debian on the machine that builds."""

    name: str
    package: str
    licence: str


PACKAGES = (
    Package("Boost", "libboost1.81-dev", "BSL-1.0"),
    Package("CLI11", "libcli11-dev", "BSD-3-Clause"),
    Package("fmt", "libfmt-dev", "MIT"),
    Package("nlohmann-json", "nlohmann-json3-dev", "MIT"),
    Package("spdlog", "libspdlog-dev", "MIT"),
    # Its exception lets programs that contain it have any licence.
    Package("libstdc++", "libstdc++-12-dev", "GPL-3.0-or-later WITH GCC-exception-3.1"),
)


def debian_version(package: str) -> str:
    command = ["dpkg-query", "--show", "--showformat", "${Version}", package]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def python_version(package: str) -> str:
    requirements = (Path(__file__).parent / "requirements.txt").read_text().split()
    return dict(line.split("==") for line in requirements if "==" in line)[package]


def from_source(source: Source) -> dict:
    return {
        "type": "library",
        "name": source.name,
        "version": source.version,
        "licenses": [{"license": {"id": source.licence}}],
        "hashes": [{"alg": "SHA-256", "content": source.sha256}],
        "externalReferences": [{"type": "distribution", "url": source.url}],
    }


def from_debian(package: Package) -> dict:
    version = debian_version(package.package)
    return {
        "type": "library",
        "name": package.name,
        "version": version,
        "licenses": [{"expression": package.licence}],
        "purl": f"pkg:deb/debian/{package.package}@{version}?distro=bookworm",
    }


def sbom(version: str) -> dict:
    nanobind = python_version("nanobind")
    components = [
        from_source(OPENSSL),
        from_source(UPLOT),
        from_source(ZLIB),
        *map(from_debian, PACKAGES),
        {
            "type": "library",
            "name": "nanobind",
            "version": nanobind,
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            "purl": f"pkg:pypi/nanobind@{nanobind}",
        },
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": "tfos",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/tfos@{version}",
            }
        },
        "components": sorted(components, key=lambda component: component["name"].lower()),
    }


def licence_texts() -> dict[str, Path]:
    """The file with the licence of each component."""
    downloads = BUILD / "downloads"
    texts = {
        "OpenSSL": next(downloads.glob("openssl/*/openssl/LICENSE.txt")),
        "uPlot": ROOT / "src" / "control" / "page" / "uplot" / "LICENSE",
        "zlib": next(downloads.glob("zlib/*/src/zlib/LICENSE")),
        "nanobind": next((BUILD / "venv").glob("lib/python3*/site-packages/nanobind-*/**/LICENSE")),
    }
    texts |= {
        package.name: Path("/usr/share/doc", package.package, "copyright") for package in PACKAGES
    }
    return dict(sorted(texts.items(), key=lambda item: item[0].lower()))


def write(folder: Path) -> list[Path]:
    version = runpy.run_path(str(ROOT / "python" / "tfos" / "_version.py"))["__version__"]
    bill = folder / f"tfos-{version}.cdx.json"
    bill.write_text(json.dumps(sbom(version), indent=2) + os.linesep)
    licences = folder / f"tfos-{version}-licences.txt"
    licences.write_text(
        f"The binaries of tfos {version} contain the following libraries.\n"
        + "".join(
            f"\n{'=' * 80}\n{name}\n{'=' * 80}\n\n{path.read_text(errors='replace')}"
            for name, path in licence_texts().items()
        )
    )
    return [bill, licences]
