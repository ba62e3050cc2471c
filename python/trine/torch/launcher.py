"""In torchrun's own process: ranks are forked from one process that has imported torch (rank_server.py), not started apart.

32 interpreters that each import torch take a minute of two cores and 240 MB each; forked, they share both. Nothing else changes:
the command, environment, output files, session and exit status of a rank are what they were. TRINE_RANKS=apart turns it off;
so does whatever cannot be forked (another interpreter, NUMA wrappers, an import that starts threads), and so does a profile that
is being taken: each process has a record of its own, opened as it loads.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from trine.torch.imports import when_imported

_PATCHED = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
_OF_A_RANK = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_ERROR_FILE")
_lock = threading.RLock()
_server = None
_has_failed = False


class Server:
    """The other end of rank_server.serve."""

    def __init__(self, script, env):
        from trine.torch import rank_server

        self.speech = rank_server
        ours, theirs = socket.socketpair()
        with theirs:
            code = f"from trine.torch import rank_server; rank_server.main({theirs.fileno()})"
            common = {k: v for k, v in env.items() if k not in _OF_A_RANK}
            self.process = subprocess.Popen([sys.executable, "-u", "-c", code], env=common, pass_fds=[theirs.fileno()],
                                            start_new_session=True)  # fmt: skip
        self.channel, self.ended = ours, {}
        self.speech.send(ours, {"script": script})
        self.is_ready = bool((self.speech.receive(ours)[0] or {}).get("ready"))

    def start(self, words, env, files):
        request = {"words": words, "env": env, "cwd": os.getcwd()}
        self.speech.send(self.channel, request, files)
        while True:
            answer = self._hear()
            if answer is None:
                raise OSError("the process that ranks are forked from has ended")
            if "started" in answer:
                return answer["started"]

    def _hear(self):
        answer, _ = self.speech.receive(self.channel)
        if answer and "ended" in answer:
            self.ended[answer["ended"]] = answer["code"]
        return answer

    def code_of(self, rank):
        """The status a rank ended with, or None while it runs."""
        import select

        while rank not in self.ended and select.select([self.channel], [], [], 0)[0]:
            if self._hear() is None:  # killed, and ranks go on without a parent to tell
                return None if os.path.exists(f"/proc/{rank}") else -signal.SIGKILL
        return self.ended.get(rank)

    def close(self):
        self.channel.close()
        self.process.wait()


class Rank:
    """A rank's process, in the shape of subprocess.Popen."""

    def __init__(self, server, words, env, files):
        self._server, self.args, self.returncode = server, words, None
        self.pid = server.start(words, env, files)

    def poll(self):
        with _lock:
            if self.returncode is None:
                self.returncode = self._server.code_of(self.pid)
            return self.returncode

    def wait(self, timeout=None):
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.02)
        return self.returncode

    def send_signal(self, sig):
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def words_of(args):
    """What follows `python -u`, where a rank is started as torchrun does; else None."""
    args = [str(a) for a in args]
    if len(args) < 3 or args[0] != sys.executable or args[1] != "-u" or (args[2].startswith("-") and args[2] != "-m"):
        return None
    return args[2:]


def _server_for(words, env):
    global _server, _has_failed
    if _server is None and not _has_failed:
        server = Server(None if words[0] == "-m" else words[0], env)
        _has_failed = not server.is_ready
        if _has_failed:
            server.close()
        else:
            _server = server
            atexit.register(server.close)
    return _server


def is_recorded(env):
    """Whether a profile is being taken of what this environment starts."""
    return bool(env.get("TRINE_PROFILE_RECORD")) or env.get("NEURON_RT_INSPECT_ENABLE", "0") not in ("", "0")


def start_rank(args, env, stdout, stderr):
    """A Rank, or None where it has to be started apart."""
    words = words_of(args)
    if words is None or env.get("TRINE_RANKS") == "apart" or is_recorded(env) or int(env.get("LOCAL_WORLD_SIZE", 1)) < 2:
        return None
    with _lock:
        server = _server_for(words, env)
        if server is None:
            return None
        files = [f.fileno() if f else n for f, n in ((stdout, 1), (stderr, 2))]
        for f in (sys.stdout, sys.stderr):
            f.flush()
        return Rank(server, words, env, files)


def _patch(module):
    known = module.SubprocessHandler._popen

    def _popen(self, args, env):
        return start_rank(args, env, self._stdout, self._stderr) or known(self, args, env)

    module.SubprocessHandler._popen = _popen


def register():
    """Called as torch is imported; costs nothing until a launcher imports the module of torch's that starts ranks."""
    when_imported(_PATCHED, _patch)
