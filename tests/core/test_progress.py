"""The bar: on a terminal's standard error while something runs, nowhere else and not afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

CODE = """
import time
from nonneg_core.progress import Bar
with Bar("embedding", 40, done=10) as bar:
    time.sleep(0.15)
    bar.move(20, text="loss 0.5")
    time.sleep(0.15)
    bar.move(30, 50)
"""


def test_in_a_pipe_there_is_no_bar():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    assert (found.stdout, found.stderr) == ("", "")


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
    assert not states[-1].strip()  # wiped: what is written last is an empty line
    assert not states[-2].strip()
