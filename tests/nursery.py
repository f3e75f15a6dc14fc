"""Processes that begin with everything imported: one that waits, and forks at a word. Only to make tests quick.

`nursery.py SOCKET --serve MODULE` imports MODULE and calls its `warm()`, then forks for whoever connects, until its
input ends.
`nursery.py SOCKET ARG...` hands its pipes to such a fork, which runs `MODULE.main(ARG...)`, and ends as it does; when
it is killed it takes the fork along.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


@contextmanager
def nursery(module: str, folder: Path) -> Iterator[str]:
    """The address to give to the second form."""
    path = str(folder / "nursery")
    command = [sys.executable, str(FOLDER / "nursery.py"), path, "--serve", module]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None and server.stdin is not None
    assert server.stdout.readline() == b"ready\n"
    try:
        yield path
    finally:
        server.stdin.close()
        server.wait()
        server.stdout.close()


def serve(path: str, module: str) -> None:
    imported = __import__(module)
    imported.warm()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _answer(connection, imported)
        connection.close()


def _answer(connection: socket.socket, module: object) -> None:
    """In a fork of the server, which forks again, so that somebody can wait for the one that works."""
    told, pipes, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    asked = json.loads(told)
    worker = os.fork()
    if worker == 0:
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
        connection.close()
        threading.Thread(target=_die_with, args=(asked["pid"],), daemon=True).start()
        module.main(*asked["arguments"])  # type: ignore[attr-defined]
        sys.stdout.flush()
        os._exit(0)
    for pipe in pipes:
        os.close(pipe)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    _, status = os.waitpid(worker, 0)
    with suppress(BrokenPipeError):  # it was killed, and with it the fork
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _die_with(pid: int) -> None:
    """SIGKILL as soon as the process that asked is gone."""
    descriptor = os.pidfd_open(pid)
    import select

    select.select([descriptor], [], [])
    os.kill(os.getpid(), signal.SIGKILL)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def ask(path: str, arguments: list[str]) -> None:
    parent = os.getppid()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    told = json.dumps({"pid": os.getpid(), "arguments": arguments}).encode()
    connection.sendmsg([told], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    for pipe in (0, 1):
        os.close(pipe)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    code = int(connection.recv(64) or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def _follow(parent: int) -> None:
    import select

    select.select([os.pidfd_open(parent)], [], [])
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[2] == "--serve":
        sys.path.insert(0, str(FOLDER))
        serve(sys.argv[1], sys.argv[3])
    else:
        ask(sys.argv[1], sys.argv[2:])
