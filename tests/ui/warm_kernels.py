"""Kernels that start warm: forked from a process that has imported what each of them imports.

    serve(socket)  imports, listens ──fork──▶ a kernel of ipykernel's, like any other
                     ▲      │ ends with it         │
    ask(socket)  ────┘      ▼                      │
    what Jupyter starts, interrupts and kills ◀────┘ ends with it

Half of a test's time went into importing torch, Bokeh and ipywidgets anew for its kernel. nbmem is
not imported beforehand. Signals reach the kernel through the process that Jupyter knows.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time

IMPORTS = ("ipykernel.kernelapp", "torch._dynamo", "ipywidgets", "anywidget", "bokeh.plotting")
LIMIT = 2**20
"""Bytes of one question: arguments, folder and environment."""


def ask(address: str) -> int:
    """Has a kernel forked with this process's arguments, and stays until either of them ends."""
    connection = _connect(address)
    asked = {"argv": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
    socket.send_fds(connection, [json.dumps(asked).encode()], [1, 2])
    kernel = int(connection.recv(64))

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(kernel, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    return len(connection.recv(1))  # it never speaks again: the end of the kernel ends this


def _connect(address: str) -> socket.socket:
    """Returns the connection once the server listens, which takes it some seconds at first."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LIMIT)
        try:
            connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(0.1)
        else:
            return connection


def serve(address: str) -> None:
    """Forks a kernel for each process that asks; returns in the forked one alone."""
    for name in IMPORTS:
        __import__(name)
    server = Server(address)
    while (asked := server.wait()) is None:
        pass
    _become(*asked)


class Server:
    """Listens, forks, and sees to it that a kernel and who asked for it end together."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LIMIT)
        self._listener.bind(address)
        self._listener.listen()
        self._ended, wake = os.pipe()
        for end in (self._ended, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._wake = wake
        self._kernels: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)

    def wait(self) -> tuple[dict, list[int]] | None:
        """Serves what comes next; in a forked process returns what was asked of it."""
        for key, _ in self._selector.select():
            if key.fileobj is self._listener:
                if (asked := self._fork()) is not None:
                    return asked
            elif key.fileobj == self._ended:
                self._reap()
            else:  # who asked is gone
                os.kill(key.data, signal.SIGKILL)
                self._selector.unregister(key.fileobj)
        return None

    def _fork(self) -> tuple[dict, list[int]] | None:
        connection, _ = self._listener.accept()
        said, files, *_ = socket.recv_fds(connection, LIMIT, 2)
        if not said:
            connection.close()
            return None
        kernel = os.fork()
        if kernel == 0:
            self._leave(connection)
            return json.loads(said), files
        for file in files:
            os.close(file)
        connection.send(str(kernel).encode())
        self._kernels[kernel] = connection
        self._selector.register(connection, selectors.EVENT_READ, data=kernel)
        return None

    def _reap(self) -> None:
        os.read(self._ended, 4096)
        for kernel in list(self._kernels):
            if os.waitpid(kernel, os.WNOHANG)[0]:
                connection = self._kernels.pop(kernel)
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                connection.close()

    def _leave(self, connection: socket.socket) -> None:
        """Forgets in a kernel what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for one in (self._listener, connection, *self._kernels.values()):
            one.close()
        for end in (self._ended, self._wake):
            os.close(end)


def _become(asked: dict, files: list[int]) -> None:
    os.setsid()
    for target, file in zip((1, 2), files, strict=True):
        os.dup2(file, target)
        os.close(file)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    os.environ.pop("JPY_PARENT_PID", None)  # its parent is the server here
    sys.argv = ["ipykernel_launcher", *asked["argv"]]
    sys.path[0] = asked["cwd"]


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        sys.argv = sys.argv[1:]
        sys.exit(ask(sys.argv[1]))
    serve(sys.argv[2])
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
