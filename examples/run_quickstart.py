"""Runs quickstart.ipynb without a browser and prints the report under each cell."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "demo-out" / "quickstart.ipynb"


def main() -> None:
    """Executes the notebook, prints its reports, leaves the executed copy."""
    notebook = nbformat.read(HERE / "quickstart.ipynb", as_version=4)
    try:
        NotebookClient(
            notebook,
            timeout=600,
            resources={"metadata": {"path": str(HERE)}},
            extra_arguments=["--log-level=ERROR"],
        ).execute()
    finally:
        OUT.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, OUT)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            print(_told(cell), end="\n\n")
    print(f"The executed notebook is {OUT.relative_to(HERE.parent)}; `make lab` opens it.")


def _told(cell: nbformat.NotebookNode) -> str:
    source = "\n".join(f"    {line}" for line in cell.source.splitlines())
    return "\n".join([source, "", *(_text(output) for output in cell.outputs)]).rstrip()


def _text(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return output.text
    return output.get("data", {}).get("text/plain", "")


if __name__ == "__main__":
    main()
