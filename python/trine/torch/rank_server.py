"""The process that many ranks of a host are forked from: it has imported what they need, once, and does nothing else.

Speaks with the launcher (launcher.py) over a socket: a request is a rank's command line, environment and files, the answer its
process; later comes the status it ended with. Ranks end with their launcher, however it ends. Never has a thread of its own,
so that a fork is whole: where an import starts one, it refuses, and ranks are started apart.
"""

import ast
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys

HEAD = struct.Struct("<I")
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
# What a script imports of these is imported before it is forked: none of them looks at its rank while it is imported.
SHARED = {"accelerate", "numpy", "peft", "safetensors", "torch", "transformers", "trine"}
LOADED = ("torch", "torch.distributed", "torch._dynamo", "torch.optim", "trine.torch.disk")


def send(channel, message, files=()):
    data = json.dumps(message).encode()
    data = HEAD.pack(len(data)) + data
    sent = socket.send_fds(channel, [data], files) if files else 0
    channel.sendall(data[sent:])


def receive(channel, files=0):
    """A message and the files that came with it; None at the end."""
    data, found, _, _ = socket.recv_fds(channel, HEAD.size, files) if files else (channel.recv(HEAD.size), [], 0, 0)
    while 0 < len(data) < HEAD.size:
        data += channel.recv(HEAD.size - len(data)) or b"\0" * HEAD.size
    if not data:
        return None, found
    left, parts = HEAD.unpack(data[: HEAD.size])[0], []
    while left:
        part = channel.recv(min(left, 1 << 16))
        if not part:
            return None, found
        parts.append(part)
        left -= len(part)
    return json.loads(b"".join(parts)), found


def imports_of(script):
    """Lines at the top of a script that import what ranks may share."""
    try:
        with open(script, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []
    out = []
    for line in body:
        if isinstance(line, ast.ImportFrom) and line.level == 0 and line.module:
            names = [line.module]
        elif isinstance(line, ast.Import):
            names = [a.name for a in line.names]
        else:
            continue
        if all(n.partition(".")[0] in SHARED for n in names):
            out.append(ast.unparse(line))
    return out


def load(script):
    """Imports for all ranks. What fails here fails again, in its own line, in each."""
    folder = os.path.dirname(os.path.abspath(script)) if script else os.getcwd()
    for line in [*(f"import {name}" for name in LOADED), *imports_of(script or "")]:
        name = line.split()[1].partition(".")[0]
        if any(os.path.exists(os.path.join(folder, name + end)) for end in ("", ".py")):
            continue  # the user's own of that name comes first
        with contextlib.suppress(Exception):
            exec(line, {})
    from trine.torch import disk

    disk.load()
    gc.collect()
    gc.freeze()


def threads():
    return len(os.listdir("/proc/self/task"))


def become(request, files):
    """In the forked process: what the rank's own interpreter would have found."""
    os.setsid()
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)  # where this process's parent is killed, nobody is left to end it
    for target, file in zip((1, 2), files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    from trine.torch import threads as share

    share.take()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # ranks that are started apart have different ones


def serve(channel):
    """Returns in a rank, with what it is to run; ends the process where the launcher has."""
    wake_read, wake_write = os.pipe()
    for side in (wake_read, wake_write):
        os.set_blocking(side, False)
    before = signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides
    ranks = set()
    while True:
        ready, _, _ = select.select([channel, wake_read], [], [])
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
        report(channel, ranks)
        if channel not in ready:
            continue
        request, files = receive(channel, 2)
        if request is None:
            end_all(ranks)
        child = os.fork()
        if child == 0:
            channel.close()
            signal.set_wakeup_fd(before)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(wake_read), os.close(wake_write)
            become(request, files)
            return request
        for file in files:
            os.close(file)
        ranks.add(child)
        send(channel, {"started": child})


def report(channel, ranks):
    while ranks:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        ranks.discard(child)
        with contextlib.suppress(OSError):
            send(channel, {"ended": child, "code": os.waitstatus_to_exitcode(status)})


def end_all(ranks):
    for rank in ranks:
        with contextlib.suppress(OSError):
            os.killpg(rank, signal.SIGKILL)
    os._exit(0)


def run(words):
    """As `python -u words…`: a script, or a module after -m."""
    if words[0] == "-m":
        import runpy

        sys.argv = [words[1], *words[2:]]
        sys.path.insert(0, os.getcwd())
        return runpy._run_module_as_main(words[1])
    import types

    script = words[0]
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=os.path.abspath(script), __builtins__=__builtins__)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def show(kind, error, trace, shown=sys.excepthook):
    """An error of the script begins in the script."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<string>"):
        trace = trace.tb_next
    shown(kind, error.with_traceback(trace), trace)


def main(fd):
    channel = socket.socket(fileno=fd)
    hello, _ = receive(channel)
    if hello is None:
        os._exit(0)
    sys.path[:] = [p for p in sys.path if p]
    load(hello["script"])
    count = threads()
    send(channel, {"ready": count == 1, "threads": count})
    if count != 1:
        os._exit(0)
    request = serve(channel)
    sys.excepthook = show
    run(request["words"])
