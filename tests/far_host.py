"""A host behind a connection, as sshd is: commands run there are no children of the client, and all that a lost client
leaves them is the end of their stdin.

    python far_host.py serve SOCKET            accept connections until killed
    python far_host.py run SOCKET COMMAND...   run a command there, with this process's three streams
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading


def serve(path: str) -> None:
    """Three connections make one session: stdin, stdout and stderr of the command that the first one names."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        while True:
            streams = [door.accept()[0] for _ in range(3)]
            length = int.from_bytes(_exactly(streams[0], 4), "big")
            argv = json.loads(_exactly(streams[0], length))
            stdin, stdout, stderr = (stream.fileno() for stream in streams)
            child = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)
            for stream in streams:
                stream.close()
            threading.Thread(target=child.wait, daemon=True).start()


def run(path: str, argv: list[str]) -> None:
    streams = []
    for _ in range(3):
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path)
        streams.append(stream)
    text = json.dumps(argv).encode()
    streams[0].sendall(len(text).to_bytes(4, "big") + text)
    threading.Thread(target=_send, args=(streams[0],), daemon=True).start()
    readers = [threading.Thread(target=_receive, args=(streams[fd], fd)) for fd in (1, 2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    os._exit(0)


def _send(stream: socket.socket) -> None:
    while chunk := os.read(0, 1 << 16):
        stream.sendall(chunk)
    stream.shutdown(socket.SHUT_WR)


def _receive(stream: socket.socket, fd: int) -> None:
    while chunk := stream.recv(1 << 16):
        os.write(fd, chunk)


def _exactly(stream: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        got += stream.recv(count - len(got))
    return got


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        run(sys.argv[2], sys.argv[3:])
