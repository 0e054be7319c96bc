"""The layers of jvm/: packages use only packages below them."""

import re

# What each package may use besides itself, of the packages of the jar.
ALLOWED = {
    "tfos.internal.base": set(),
    "tfos.internal.spark": set(),
    "tfos.internal.columns": {"tfos.internal.base"},
    "tfos.internal.feed": {
        "tfos.internal.base",
        "tfos.internal.columns",
        "tfos.internal.spark",
    },
    "tfos.internal.inference": {
        "tfos.internal.base",
        "tfos.internal.columns",
        "tfos.internal.spark",
    },
    "tfos.internal.records": {"tfos.internal.base", "tfos.internal.columns"},
    "tfos.internal.records.spark": {
        "tfos.internal.base",
        "tfos.internal.columns",
        "tfos.internal.records",
        "tfos.internal.spark",
    },
    "tfos.internal.ui": {"tfos.internal.base", "tfos.internal.spark"},
    "tfos": {"tfos.internal.records.spark"},
    "tfos.ml": {"tfos.internal.base", "tfos.internal.inference", "tfos.internal.spark"},
    "com.yahoo.tensorflowonspark": {"tfos", "tfos.internal.base", "tfos.ml"},
    "org.tensorflow.hadoop.io": {"tfos.internal.records"},
}

_SOURCES = ("jvm", "src", "main", "java")
# Comments, which may name anything, and strings.
_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A class with its package, as in imports and in the code.
_CLASS = re.compile(
    r"(?<![\w.])((?:tfos|com\.yahoo|org\.tensorflow)(?:\.[a-z]\w*)*)\.(?:[A-Z]\w*|\*)"
)


def violations(root):
    """Yields a message for each use of a package that does not point downwards."""
    sources = root.joinpath(*_SOURCES)
    for path in sorted(sources.rglob("*.java")):
        package = ".".join(path.parent.relative_to(sources).parts)
        name = path.relative_to(root)
        if package not in ALLOWED:
            yield f"{name}: {package} has no layer in tools/checks/layers_java.py"
            continue
        # What is cut out keeps its lines, for the numbers.
        code = _NOT_CODE.sub(lambda found: "\n" * found.group().count("\n"), path.read_text())
        for found in _CLASS.finditer(code):
            if found.group(1) not in ALLOWED[package] | {package}:
                line = code.count("\n", 0, found.start()) + 1
                yield f"{name}:{line}: {package} must not use {found.group()}"
