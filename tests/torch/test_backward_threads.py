"""A program that ends right after its backward pass ends well; see trine.torch.backward_threads."""

import ctypes
import hashlib
import subprocess
import sys
import threading

import pytest

pytest.importorskip("torch")

from trine.torch import backward_threads  # noqa: E402

PR_SET_NAME = 15
PROGRAM = """
import sys, torch
sys.setswitchinterval(100)  # the GIL goes to the backward thread only where this one lets go of it
model = torch.nn.Linear(64, 64).to("neuron")
fast = torch.compile(model, backend="neuron")
for _ in range(3):
    fast(torch.ones(8, 64).to("neuron")).sum().backward()
"""


def test_waits_for_a_thread_that_computes():
    began, over, leave = threading.Event(), [], threading.Event()

    def backward():
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"pt_autograd_9")
        began.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000)  # without the GIL, as a backward pass computes
        over.append(True)
        leave.wait()

    thread = threading.Thread(target=backward)
    thread.start()
    began.wait()
    backward_threads.wait()
    assert over
    leave.set()
    thread.join()


def test_waits_for_nobody():
    backward_threads.wait()


def test_ends_after_backward():
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
