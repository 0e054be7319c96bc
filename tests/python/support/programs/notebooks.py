"""Notebooks in a kernel of Jupyter: they run, and some of their cells are stopped as a reader stops them."""

from __future__ import annotations

import asyncio
import hashlib
import pathlib
import re

import nbclient
import nbformat

from support.places import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
BOUND_SECONDS = 480
#: Of each curve, before a reader has seen enough of it.
POINTS = 12


def has_seen_enough(said: str) -> bool:
    """Whether a view has curves of the loss and of rows a second that are longer than a few points, or
    the progress line says that the driver waits for the programs' end."""
    curves = re.findall(r'<polyline [^>]*points="([^"]*)"', said)
    return (
        len(curves) == 2 and min(len(points.split()) for points in curves) >= POINTS
    ) or "all rows fed |" in said


class Reader(nbclient.NotebookClient):
    """Runs cells; interrupts the kernel in those tagged `interrupt`, once there has been enough to see."""

    def __init__(self, notebook, folder=ROOT / "examples/notebooks"):
        super().__init__(
            notebook,
            timeout=BOUND_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        )

    def process_message(self, msg, cell, cell_index):
        said = str(msg["content"].get("data", "")) + str(msg["content"].get("text", ""))
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.displayed.setdefault(cell_index, []).append(msg["msg_type"])
        if (
            "interrupt" in cell.metadata.get("tags", ())
            and cell_index not in self.stopped
            and has_seen_enough(said)
        ):
            self.stopped.add(cell_index)
            task = asyncio.ensure_future(self.km.interrupt_kernel())
            self.interrupting.append(task)
        return super().process_message(msg, cell, cell_index)

    def run(self):
        self.stopped, self.interrupting, self.displayed = set(), [], {}
        with self.setup_kernel():
            for index, cell in enumerate(self.nb.cells):
                self.execute_cell(cell, index)


def sources_of(notebook: nbformat.NotebookNode) -> str:
    """What stands for a notebook's cells, without their outputs."""
    sources = "\n\n".join(cell.source for cell in notebook.cells)
    return hashlib.sha256(sources.encode()).hexdigest()


def executed(path: pathlib.Path) -> nbformat.NotebookNode:
    """A notebook with the outputs that its readers get, and with what says of which sources they are.

    Warnings of Spark are left out, and so are the paths of tracebacks: they differ from host to host.
    """
    notebook = nbformat.read(path, as_version=4)
    Reader(notebook, path.parent).run()
    for number, cell in enumerate(
        (cell for cell in notebook.cells if cell.cell_type == "code"), start=1
    ):
        cell.execution_count = number
        cell.metadata.pop("execution", None)  # Times.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if output.output_type == "error":
                output.traceback = [f"{output.ename}: {output.evalue}".rstrip(": ")]
    notebook.metadata["outputs_of"] = sources_of(notebook)
    return notebook
