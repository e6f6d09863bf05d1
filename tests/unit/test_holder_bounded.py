"""Which storages stand in a deque with a limit, over plain dicts of names."""

from collections import deque

import torch

from nbmem.heap import StorageTable
from nbmem.holders.web import open_web

N = 1 << 14


def sizes_of_bounded(names):
    """The bytes of the storages that deques with a limit hold, smallest first."""
    table = StorageTable()
    with open_web(table, names) as web:
        bytes_of = {ref.serial: ref.bytes for ref in table.live()}
        return sorted(bytes_of[key] for key in web.holders.bounded)


def test_what_stands_in_a_replay_buffer_at_any_depth_is_told():
    buffer = deque(maxlen=1_000)
    buffer.append((torch.ones(N), {"next": torch.ones(2 * N)}))
    agent = type("Agent", (), {})()
    agent.buffer = buffer
    assert [4 * N, 8 * N] == sizes_of_bounded({"agent": agent})


def test_a_list_and_a_deque_without_a_limit_forget_nothing():
    names = {"kept": [torch.ones(N)], "queue": deque([torch.ones(2 * N)])}
    assert [] == sizes_of_bounded(names)


def test_a_deque_of_a_class_of_the_users_is_read_without_its_code():
    class Buffer(deque):
        @property
        def maxlen(self):
            raise AssertionError("code of the user's")

        def __len__(self):
            raise AssertionError("code of the user's")

    assert [4 * N] == sizes_of_bounded({"buffer": Buffer([torch.ones(N)], 8)})
