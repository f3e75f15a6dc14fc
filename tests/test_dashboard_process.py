"""`warpsmith serve` as a process: what it prints, and that Ctrl-C ends it also while pages follow a run."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.synthetic_run import make_run


def test_it_prints_its_address_and_ends_at_ctrl_c_with_streams_open(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1, ended=False)
    argv = [sys.executable, "-m", "app.start", "serve", "--runs", str(tmp_path), "--port", "0", "--json"]
    started = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert started.stdout is not None
        url = urlsplit(json.loads(started.stdout.readline())["url"])
        assert url.hostname == "127.0.0.1" and url.port
        streams = []
        for _ in range(3):
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
            token = url.query.partition("=")[2]
            connection.request("GET", f"/run/{run.id}/events", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            assert answer.readline() == b"retry: 2000\n"
            streams.append((connection, answer))
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=60)
        assert started.returncode == 0 and errors == ""
        for connection, _ in streams:
            connection.close()
    finally:
        started.kill()
        started.wait()
