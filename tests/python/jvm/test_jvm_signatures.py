"""What programs for the JVM can call: no class of tfos.internal is in its signatures."""

from __future__ import annotations

import re
import subprocess
import zipfile

import tfos

PUBLIC_PACKAGES = {
    "tfos",
    "tfos.ml",
    "com.yahoo.tensorflowonspark",
    "org.tensorflow.hadoop.io",
}


def test_no_public_signature_names_a_class_of_tfos_internal():
    with zipfile.ZipFile(tfos.jar_path()) as jar:
        classes = [
            name.removesuffix(".class").replace("/", ".")
            for name in jar.namelist()
            if name.endswith(".class") and ".".join(name.split("/")[:-1]) in PUBLIC_PACKAGES
        ]
    shown = subprocess.run(
        ["javap", "-protected", "-cp", tfos.jar_path(), *classes],
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    # Those of a class that can't be named are nobody's to call.
    bodies = re.findall(r"(?ms)^(?:public|protected) .*?^}", shown)
    named = {re.search(r"(?:class|interface) ([\w.$]+)", body)[1] for body in bodies}
    assert {"tfos.TFRecords", "tfos.ml.ModelStage", "com.yahoo.tensorflowonspark.TFModel"} <= named
    leaks = [line for body in bodies for line in body.splitlines() if "tfos.internal" in line]
    assert leaks == []
