"""The layers of python/tfos: packages import only packages below them, also inside functions, and
no modules import each other."""

import ast

import circles

# What each package or module of tfos may import besides itself, `_native` and `_version`. "tfos" is
# the whole public API. Sub-packages with a line of their own are apart from the package that they
# are in.
ALLOWED = {
    "errors": set(),
    "util": {"errors", "settings", "spark"},
    "node_status": set(),
    "settings": {"base", "errors"},
    "base": {"errors"},
    "spark": {"errors"},
    "collective": {"base", "errors"},
    "files": {"errors", "settings", "spark"},
    "feed": {"base", "errors", "spark"},
    "keras": {"collective", "errors", "files"},
    "elastic": {"collective", "errors", "keras"},
    "tensorflow": {"errors", "files"},
    "parallel": {"base", "errors", "files", "settings", "spark", "tensorflow"},
    "mlflow": {"base", "errors", "keras"},
    "cluster": {
        "base",
        "errors",
        "feed",
        "files",
        "keras",
        "mlflow",
        "node_status",
        "settings",
        "spark",
    },
    "records": {"base", "errors", "files"},
    "records.spark": {"base", "errors", "files", "records", "spark"},
    "parameter_server": {"base", "errors", "files", "keras"},
    "parameter_server.session": {"base", "errors", "parameter_server", "settings", "spark"},
    "inference": {"base", "errors", "files", "settings", "spark", "tensorflow"},
    "node": {
        "base",
        "collective",
        "errors",
        "feed",
        "files",
        "keras",
        "node_status",
        "parameter_server",
        "records",
        "tensorflow",
    },
    "ml": {"base", "collective", "errors", "files", "inference", "mlflow", "spark", "tfos"},
    "examples": {"errors"},
    "cli": {
        "base",
        "errors",
        "files",
        "inference",
        "records",
        "settings",
        "spark",
        "tensorflow",
        "util",
    },
}
_EVERYWHERE = {"_native", "_version"}
_FACADES = {
    "tensorflowonspark",
    "tensorflowonspark_gpu10p",
    "tensorflowonspark_gpu20p",
    "tensorspark",
}


def violations(root):
    """Yields a message for each import that does not point downwards."""
    package = root / "python" / "tfos"
    uses = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).with_suffix("").parts
        if inside in (("__init__",), ("_version",)):
            continue  # The first only names what the packages have.
        layer = _layer_of(".".join(inside).removesuffix(".__init__"))
        name = path.relative_to(root)
        if layer not in ALLOWED:
            yield f"{name}: tfos.{layer} has no layer in tools/checks/layers_python.py"
            continue
        tree = ast.parse(path.read_text())
        module = ".".join(("tfos", *inside)).removesuffix(".__init__")
        for line, imported in _imports(tree, package):
            if imported.split(".")[0] in _FACADES:
                yield f"{name}:{line}: tfos must not import {imported}"
                continue
            target = _layer_of(imported.removeprefix("tfos").removeprefix(".")) or "tfos"
            if target not in ALLOWED[layer] | _EVERYWHERE | {layer}:
                yield f"{name}:{line}: tfos.{layer} must not import {imported}"
        uses[module] = {imported for _, imported in _imports(_without_types(tree), package)}
    for way in circles.of(uses):
        yield "modules import each other: " + " -> ".join(way)


def _layer_of(module):
    """The line of the table for a module, named without `tfos.` before it."""
    parts = module.split(".")
    nested = ".".join(parts[:2])
    return nested if nested in ALLOWED else parts[0]


def _without_types(tree):
    """The tree without what is imported for types alone, which no program runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    return tree


def _imports(tree, package):
    """Yields the line and the module of each import of tfos or of a facade, wherever it is."""
    ours = {"tfos", *_FACADES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ours:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "tfos (with dots: name the package)"
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ours:
            for alias in node.names:
                yield node.lineno, _module_of(node.module, alias.name, package)


def _module_of(module, name, package):
    """What `from module import name` imports: a module of that name, if there is one."""
    path = package.joinpath(*module.split(".")[1:], name)
    is_module = (
        path.is_dir() or path.with_suffix(".py").is_file() or name in _EVERYWHERE | set(ALLOWED)
    )
    return f"{module}.{name}" if is_module else module
