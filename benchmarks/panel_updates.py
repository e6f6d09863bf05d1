"""What one more cell costs a page with the panel: bytes on the wire, milliseconds until painted.

A real JupyterLab, kernel and Chromium. The history has 1,000 records, and 10,000 tensors live.
Every update is a measured cell that makes one tensor, the largest: the panel gets a bar, a row in
the table of cells and a row in the table of live tensors. The page notes each frame that its
websocket brings, before JupyterLab sees it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import markdown

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "ui"))

CELLS, STORAGES, UPDATES = 1_000, 10_000, 25

LOAD = "import torch\n%load_ext nbmem\n%gpumem on"
SHOW = "%gpumem panel"
MODEL = "model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])"
FILL = f"""
import dataclasses, itertools, math, torch
from nbmem.session import current_session
session = current_session()
many = [torch.ones(1 + n % 997) for n in range({STORAGES})]
real = session.history.records()[-1]
def copy(n):
    M = 2**20
    alive = {{"parameter": 30 * M, "optimizer state": 60 * M, "gradient": 30 * M,
             "saved for backward": n % 50 * M, "user": int(40 * M * (1 + math.sin(n)))}}
    after = sum(alive.values())
    delta = dataclasses.replace(real.devices["cpu"], before=after - M, after=after, delta=M,
                                peak=after + n % 60 * M)
    return dataclasses.replace(
        real, serial=real.serial + 1 + n, execution_count=10_000 + n, devices={{"cpu": delta}},
        cell_id=f"5e0d8a52-0000-4000-8000-{{n % 60:012d}}", alive={{"cpu": alive}},
        first_line=f"loss = train(model, loader, epochs={{n}})", started_at=real.started_at + n)
for n in range(1, {CELLS} + 1):
    session.keep(copy(n), tell=False)
session.history.set_limit({CELLS})
session.recorder._serials = itertools.count(real.serial + 2 + {CELLS})
kept = []
session.tell_subscribers()
"""
UPDATE = "kept.append(torch.ones(1_000_000 + len(kept)))"

# A frame's time and size are noted as it comes, and again when the page has painted what it says.
LISTEN = """() => {
  const Socket = window.WebSocket;
  const WORDS = {
    bars: '"part_words"', cells: 'In[n] of the cell', tensors: 'Your name for it',
  };
  window.nbmemFrames = [];
  window.WebSocket = class extends Socket {
    constructor(...args) {
      super(...args);
      this.addEventListener('message', ({ data }) => {
        const at = performance.now();
        const text = typeof data === 'string' ? data : new TextDecoder().decode(data);
        const kinds = Object.entries(WORDS).filter(([, words]) => text.includes(words));
        const about = kinds[0]?.[0] ?? '';
        window.nbmemFrames.push({ at, bytes: data.byteLength ?? data.length, about });
      });
    }
  };
}"""

# Runs a cell that is in no notebook: JupyterLab's own work for one is not what is measured.
UPDATED = """async ({ code, label, size }) => {
  const frames = window.nbmemFrames;
  frames.length = 0;
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const panel = document.querySelector('.nbmem-panel');
  const rows = (label) => panel.querySelector(`[aria-label="${label}"] [role=rowgroup]`);
  const first = (label) => rows(label).firstChild?.textContent ?? '';
  const versions = Object.keys(window.Bokeh).filter((key) => /^\\d/.test(key));
  const documents = versions.flatMap((version) => [...window.Bokeh[version].documents]);
  const bars = documents.map((each) => each.get_model_by_name('nbmem-cells')).find(Boolean);
  const cells = () => bars.data.cell.at(-1) === label && first('Cells').includes(label);
  const tensors = () => first('Live tensors').includes(size);
  const frame = () => new Promise(requestAnimationFrame);
  const soon = () => new Promise((resolve) => setTimeout(resolve));
  const painted = async (true_) => {
    while (!true_()) await frame();
    await frame();
    await soon();
    return performance.now();
  };
  const ran = kernel.requestExecute({ code, store_history: true }).done;
  const shown = await Promise.all([painted(cells), painted(tensors)]);
  await ran;
  let count = -1;
  while (count !== frames.length) {
    count = frames.length;
    await new Promise((resolve) => setTimeout(resolve, 400));
  }
  return { shown, frames };
}"""


@contextmanager
def _notebook() -> Iterator[Any]:
    """Gives a notebook in JupyterLab, its page and all that belongs to it."""
    from conftest import FLAGS
    from lab_page import Notebook
    from lab_server import serve
    from playwright.sync_api import sync_playwright

    path = os.environ.get("NBMEM_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        _withhold_sidebar(Path(folder) / "lab")
        with serve(Path(folder) / "lab") as (url, root):
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            page = browser.new_page()
            page.add_init_script(f"({LISTEN})()")
            book = Notebook(page, url, root / "long.ipynb")
            book.write((LOAD, SHOW, MODEL, FILL))
            book.open()
            yield book
            browser.close()


def _withhold_sidebar(home: Path) -> None:
    """One panel is measured, the inline one; the sidebar's would be told the same once more."""
    place = home / "config" / "labconfig" / "page_config.json"
    place.parent.mkdir(parents=True)
    place.write_text('{"disabledExtensions": {"nbmem": true}}')


def _updates(book: Any) -> list[dict[str, Any]]:
    """Returns when each update was on the screen, the frames that came, and the page's CPU time."""
    book.run(0, 1, 2, 3)
    book.wait_for_charts(f"chart.columns.cell.at(-1) === '[{10_000 + CELLS}]'")
    book.panel(1).locator(".nbmem-plot").scroll_into_view_if_needed()
    browser = book.page.context.new_cdp_session(book.page)
    browser.send("Performance.enable")
    told = []
    for number in range(UPDATES + 1):
        label = f"[{int(book.ask('get_ipython().execution_count'))}]"
        size = book.ask("len(kept)").join(("kept[", "]"))
        before = _page_seconds(browser)
        taken = book.page.evaluate(UPDATED, {"code": UPDATE, "label": label, "size": size})
        taken["cpu"] = 1e3 * (_page_seconds(browser) - before)
        if number:  # the first warms up
            told.append(taken)
    return told


def _page_seconds(browser: Any) -> float:
    metrics = browser.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "ThreadTime"))


def _milliseconds(taken: dict[str, Any], about: str, shown: int) -> float:
    """Returns the time from the frame that brings these rows until they are on the screen."""
    end = taken["shown"][shown]
    frames = (frame["at"] for frame in taken["frames"] if frame["about"] == about)
    return float(end - max(at for at in frames if at < end))


def _told(values: Sequence[float], unit: float = 1.0) -> str:
    scaled = [value / unit for value in values]
    return f"{statistics.median(scaled):.3g} [{min(scaled):.3g}–{max(scaled):.3g}]"


def updates_table() -> str:
    """Bytes and milliseconds of one update of a long history."""
    with _notebook() as book:
        told = _updates(book)
    frames = [taken["frames"] for taken in told]
    sizes = [sum(frame["bytes"] for frame in each) for each in frames]
    rows = [sum(frame["bytes"] for frame in each if frame["about"]) for each in frames]
    figures = [
        ["on the wire, all that the kernel sends, kB", _told(sizes, 1e3)],
        ["of it bars and rows, kB", _told(rows, 1e3)],
        ["bar and row of the cell: received to painted, ms",
         _told([_milliseconds(each, "bars", 0) for each in told])],
        ["row of the tensor: received to painted, ms",
         _told([_milliseconds(each, "tensors", 1) for each in told])],
        ["CPU time of the page, JupyterLab's own included, ms", _told([t["cpu"] for t in told])],
    ]  # fmt: skip
    head = f"one more cell, after {CELLS:,} and beside {STORAGES:,} tensors"
    return markdown([head, f"median of {UPDATES} [least–most]"], figures)
