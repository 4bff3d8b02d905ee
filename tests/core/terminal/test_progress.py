"""The bar: on a terminal's standard error while something runs, nowhere else and not afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

from nonneg_core.terminal.progress import Lines

CODE = """
import time
from nonneg_core.terminal.progress import ProgressBar
with ProgressBar("embedding", 40, done=10) as bar:
    time.sleep(0.15)
    bar.move(20, text="loss 0.5")
    time.sleep(0.15)
    bar.move(30, 50)
"""


def test_in_a_pipe_no_bar_is_drawn():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    assert (found.stdout, found.stderr) == ("", "")


def test_a_log_gets_a_line_a_minute(capsys):
    now = iter([0.0, 30.0, 61.0, 100.0, 3661.0])
    lines = Lines("embedding", 20_000, 100, "images", clock=lambda: next(now))
    for done in (1000, 6200, 8000):
        lines.move(done, None, "")
    lines.move(10_100, 30_000, "loss 0.5")
    assert capsys.readouterr().err.splitlines() == [
        "embedding: 6,200 of 20,000 images, 100 images/s, 2 min left",
        "embedding: 10,100 of 30,000 images, 2.73 images/s, loss 0.5, 2 h 1 min left",
    ]


def test_a_terminal_shows_description_count_rate_and_time_left_and_then_nothing():
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", 24, 120, 0, 0))
    subprocess.run([sys.executable, "-c", CODE], stderr=child, check=True, timeout=60)
    os.set_blocking(parent, False)
    shown = os.read(parent, 65536).decode()
    os.close(child)
    os.close(parent)
    states = shown.split("\r")
    assert any("embedding" in s and "20/40" in s and "images/s, loss 0.5" in s and "left" in s for s in states)
    assert any("30/50" in s for s in states)
    assert any(re.search(r"\d images/s", s) for s in states)  # a rate, never seconds an image
    assert not states[-1].strip()  # wiped: what is written last is an empty line
    assert not states[-2].strip()
