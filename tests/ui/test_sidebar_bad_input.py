"""What the sidebar makes of messages that nbmem never sends."""

from __future__ import annotations

import json

from sidebar_page import FEATS, LOAD, expect, row

SEND = """import comm, json
told = comm.create_comm(target_name='nbmem', comm_id='nbmem-broadcast', primary=False)
told._closed = True
for text in {texts!r}: told.send(json.loads(text))"""

OTHER_AGE = """import nbmem.frontend.messages as messages
messages.PROTOCOL, messages.__version__ = {protocol}, {version!r}
%load_ext nbmem"""


def send(*messages: object) -> str:
    return SEND.format(texts=[json.dumps(each) for each in messages])


def test_malformed_messages_are_a_sentence_and_nothing_is_lost(book):
    wrong = (
        {"type": "live", "protocol": 1, "running": "perhaps"},
        {"type": "state", "protocol": 1, "copy": 7},
        {"type": "marks", "protocol": 1, "whole": True, "marks": [None]},
        {"type": "made up", "protocol": 1},
        [],
    )
    huge = {"type": "live", "protocol": 1, "title": "x" * 5_000_000}
    it = book(LOAD, FEATS, send(*wrong[:4]), send(huge), FEATS)
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    it.run(2)
    it.says("The kernel sent a message that this page cannot read")
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    it.press("Dismiss")
    it.run(3)
    it.run(4)
    expect(row(it.docked, "Cells", "[5]")).to_be_visible()


def test_a_kernel_with_a_newer_or_older_nbmem_says_what_to_update(book):
    newer = book(OTHER_AGE.format(protocol=2, version="9.0.0"))
    newer.run(0)
    newer.says(
        "The kernel has nbmem 9.0.0, which is newer than this page: run pip install -U nbmem"
    )
    newer.says("in the environment that JupyterLab runs in, then reload the page.")
    older = book(OTHER_AGE.format(protocol=0, version="0.0.1"))
    older.run(0)
    older.says("The kernel has nbmem 0.0.1, which is older than this page: run %pip install -U")


def test_a_panel_that_the_kernel_never_made_is_a_sentence_and_the_old_one_stays(book):
    stray = {"type": "panel", "protocol": 1, "model_id": "0" * 32, "trouble": ""}
    it = book(LOAD, FEATS, send(stray))
    it.run(0, 1)
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
    it.run(2)
    it.says("The kernel sent a message that this page cannot read (panel)")
    expect(row(it.docked, "Live tensors", "feats")).to_contain_text("16.0")
