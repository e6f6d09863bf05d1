"""What travels to the page when rows change; messages are put together again as the page does."""

import json
from dataclasses import replace

from pages import Page
from panel_session import MIB, ScriptedSession, cell, leak, storage

from nbmem.panel import Panel
from nbmem.panel.cell_columns import cell_table
from nbmem.panel.jumps import CellPlaces, jump_html, place_of
from nbmem.panel.leak_columns import leak_table
from nbmem.panel.live import LiveList
from nbmem.panel.live_columns import live_table
from nbmem.panel.rows import RowStream


class Reader:
    """A page: it has what earlier messages brought."""

    def __init__(self):
        self.number, self.lists = 0, {}

    def take(self, message):
        told = json.loads(message)
        if told["base"] not in (0, self.number):
            return False
        places = [
            place and [told["ids"][place[0]] if place[0] >= 0 else None, *place[1:]]
            for place in told["lists"].get("places", ())
        ]
        fresh = told["lists"] | ({"places": places} if places else {})
        joined = {name: [] for name in fresh}
        for name, values in fresh.items():
            waiting = iter(values)
            for first, count in told["runs"]:
                some = [next(waiting) for _ in range(count)] if first < 0 else None
                joined[name] += some or self.lists[name][first : first + count]
        self.number, self.lists = told["number"], joined
        return True


def send(stream, rows, **head):
    """One message about rows of a key and a word."""
    return stream.follow([key for key, _word in rows], head, {"word": [w for _key, w in rows]})


ROWS = [(n, f"row {n}") for n in range(1000)]


def test_a_new_row_travels_alone_while_the_oldest_leaves():
    stream, page = RowStream(), Reader()
    page.take(send(stream, ROWS))
    message = send(stream, [*ROWS[1:], (1000, "new")])
    assert 200 > len(message)
    assert page.take(message)
    assert [f"row {n}" for n in range(1, 1000)] + ["new"] == page.lists["word"]
    assert list(range(1, 1001)) == page.lists["keys"]


def test_rows_that_changed_moved_or_left_come_out_right():
    stream, page = RowStream(), Reader()
    for rows in (
        ROWS[:5],
        [ROWS[4], (1, "changed"), ROWS[0]],
        [],
        ROWS[:3],
        ROWS[2::-1],
        [*ROWS[:3], (0, "the same key")],
        ROWS[:3],
    ):
        assert page.take(send(stream, rows))
        assert [word for _key, word in rows] == page.lists["word"]


def test_a_page_that_missed_a_message_can_not_use_the_next_but_the_whole():
    stream, page = RowStream(), Reader()
    page.take(send(stream, ROWS))
    send(stream, ROWS[1:])
    assert not page.take(send(stream, ROWS[2:]))
    assert page.take(stream.whole())
    assert ROWS[2:] == list(zip(page.lists["keys"], page.lists["word"], strict=True))


def test_another_set_of_columns_is_sent_whole():
    stream, page = RowStream(), Reader()
    page.take(send(stream, ROWS))
    assert page.take(stream.follow([1], {}, {"other": ["x"]}))
    assert {"other": ["x"], "keys": [1]} == page.lists


def test_the_place_of_each_row_takes_a_few_bytes_and_each_id_is_sent_once():
    ids = [f"5e0d8a52-0000-4000-8000-{n:012d}" for n in range(20)]
    records = [cell(n, 0, MIB, MIB, cell_id=ids[n % 20]) for n in range(1, 1001)]
    places = [place_of(record) for record in records]
    stream, page = RowStream(), Reader()
    bare = len(stream.follow(range(1000), {}, {}))
    message = RowStream().follow(range(1000), {}, {"places": places})
    assert 1000 * 14 > len(message) - bare
    page.take(message)
    assert [list(place) for place in places] == page.lists["places"]


def test_one_more_cell_sends_its_bar_and_its_row():
    session = ScriptedSession(*(cell(n, 0, MIB, MIB) for n in range(1, 1001)))
    session.storages = [storage(n, 4 * n) for n in range(300, 0, -1)]
    panel, sent = Panel(session), []
    for part in (panel._body.chart, panel._body.cells, panel._body.tensors):
        part.send = lambda _content, buffers: sent.append(buffers[0])
    del session.list[1]  # the oldest but the one that made the storages
    session.list.append(cell(1001, 0, MIB, MIB))
    session.storages = [storage(301, 4 * 301), *session.storages]
    session.tell()
    assert 3 == len(sent)
    assert 8_000 > sum(map(len, sent))
    panel.close()


def test_a_view_that_comes_later_gets_every_row():
    session = ScriptedSession(cell(1, 0, MIB, MIB))
    panel, page = Panel(session), Reader()
    session.list.append(cell(2, 0, MIB, MIB))
    session.tell()
    for part in (panel._body.chart, panel._body.cells):
        sent = []
        part.send = lambda _content, buffers, sent=sent: sent.append(buffers[0])
        part._receive(None, {"type": "hello"}, [])
        assert page.take(sent[0])
        assert {1, 2} == set(page.lists["keys"])
    panel.close()


def test_rows_of_cells_storages_and_leaks_know_their_cell():
    ran = cell(12, 0, MIB, MIB, execution_count=7, cell_id="abc")
    known = replace(storage(1, 2 * MIB, created_by=7), created_in=12)
    gone = replace(storage(2, MIB, created_by=4), created_in=99)
    nobody = replace(storage(3, 1, created_by=None), created_in=None)
    live, cells = LiveList(), CellPlaces([ran])
    live.follow([known, gone, nobody])
    wanted = [("abc", 7, 12), (None, 4, 99), None]
    assert wanted == live_table(live, "IEC", cells).places
    assert [("abc", 7, 12)] == cell_table([ran], "cpu", "IEC").places
    leaks = [leak(MIB, "a"), leak(MIB, "b", created_by=4), leak(MIB, "c", created_by=None)]
    found = leak_table([1, 2, 3], leaks, "IEC", cells).places
    assert [("abc", 7, 12), (None, 4, None), None] == found


def test_a_record_that_no_cell_ran_leads_nowhere():
    assert place_of(cell(5, 0, MIB, MIB, execution_count=None)) is None
    assert "" == jump_html(None)


def test_the_link_to_a_cell_is_escaped():
    hostile = cell(5, 0, MIB, MIB, cell_id='"><img src=x onerror=alert(1)>')
    html = jump_html(place_of(hostile))
    assert "<img" not in html
    assert ["button"] == Page(html).tags
    assert 'aria-label="Go to cell [5]"' in html
    assert 'data-number="5"' in html
