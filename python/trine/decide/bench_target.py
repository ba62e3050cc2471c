"""What `trine bench` measures in host time: a function, a server by its URL, or a `trine serve` that it starts.

A target is called with no arguments and does one inference. What a fault needs of it (its process, a way between it and
us) it has or has not; nothing here reaches another machine than the one of the URL.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from trine.command import OUTSIDE, UNSUPPORTED, USAGE, Stop, note

TIMEOUT_S = 120.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PROMPT, OUTPUT = 32, 16  # tokens of a request that nobody gave: enough to read a prompt and to write more than the first token
START_S = 600.0  # in which a server that was started must answer


def users_line(e):
    """Where in the user's file it was raised."""
    frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith("<") and "trine/decide/bench" not in f.filename]
    return f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""


def load_function(path, name):
    """The function of a file, as a module of its own."""
    spec = importlib.util.spec_from_file_location("benched", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    except PermissionError as e:
        raise Stop(OUTSIDE, f"{e.filename or path}: {e.strerror or e}") from None
    except (Exception, SystemExit) as e:  # the user's own, whatever it is
        raise Stop(UNSUPPORTED, f"{path} raised {type(e).__name__}: {e}{users_line(e)}; expected a file that can be imported") from None
    if not callable(getattr(module, name, None)):
        raise Stop(USAGE, f"{path}: found no function {name}, expected one that takes no arguments and does one inference")
    return getattr(module, name)


class Function:
    """FILE.py:NAME, called in this process."""

    kind = "function"

    def __init__(self, target):
        self.path, _, self.name = target.rpartition(":")
        if not self.path or not Path(self.path).is_file():
            raise Stop(USAGE, f"found {target}, expected FILE.py:FUNCTION of a file that is there, or http://…")
        begin = time.perf_counter()
        self.call = load_function(self.path, self.name)
        self.load_s = time.perf_counter() - begin

    def __call__(self):
        return self.call()

    def first_tokens(self):
        return {}

    def close(self):
        pass


def own_key(url):
    """The key that `trine serve` made for this user; only for loopback, where it was asked for."""
    from trine.serve.opening import key_path

    if urllib.parse.urlsplit(url).hostname not in LOOPBACK or not key_path().is_file():
        return ""
    return key_path().read_text().strip()


class Server:
    """An URL. One that ends in /v1 or names OpenAI's completions gets a request of its own making where none is given, which
    is streamed, so that the time to the first token is seen. `via`: (host, port) to connect to instead, a proxy of ours."""

    kind = "server"

    def __init__(self, url, body=None, prompt=PROMPT, output=OUTPUT):
        split = urllib.parse.urlsplit(url)
        try:
            wrong = not split.hostname or split.port == 0
        except ValueError as e:
            wrong = str(e)
        if wrong:
            raise Stop(USAGE, f"found {url}, expected http://HOST:PORT/PATH" + (f": {wrong}" if isinstance(wrong, str) else ""))
        self.url, self.via, self.load_s, self.firsts, self.tokens = url, None, 0.0, [], 0
        self.data = Path(body).read_bytes() if body else None
        self.headers = {"Content-Type": "application/json"} if self.data else {}
        path = split.path.rstrip("/")
        self.speaks_openai = not body and (path.endswith("/v1") or path.endswith(("/completions", "/chat/completions")))
        if self.speaks_openai:
            self._make_body(path, prompt, output)

    def _make_body(self, path, prompt, output):
        base = self.url.split("/v1", 1)[0] + "/v1"
        self.url = f"{base}/models"
        try:
            name = json.loads(self())["data"][0]["id"]
        except (KeyError, IndexError, TypeError, ValueError):
            raise Stop(OUTSIDE, f"{base}/models: found no list of models, expected that of an OpenAI-compatible server; --body FILE says what to send") from None
        except (urllib.error.URLError, OSError) as e:
            raise Stop(OUTSIDE, f"{base}/models: {e}") from None
        words, chat = "word " * prompt, path.endswith("/chat/completions")
        asked = {"messages": [{"role": "user", "content": words}]} if chat else {"prompt": words}
        self.url = f"{base}/chat/completions" if chat else f"{base}/completions"
        self.data = json.dumps({"model": name, "max_tokens": output, "temperature": 0, "stream": True, **asked}).encode()
        self.headers["Content-Type"] = "application/json"

    def _send(self):
        url, headers, begin = self.url, dict(self.headers), time.perf_counter()
        if self.via:
            split = urllib.parse.urlsplit(url)
            url, headers["Host"] = split._replace(netloc=f"{self.via[0]}:{self.via[1]}").geturl(), split.netloc
        with urllib.request.urlopen(urllib.request.Request(url, self.data, headers), timeout=TIMEOUT_S) as answer:  # noqa: S310
            if not self.speaks_openai or not self.data:
                return answer.read()
            events, ended = 0, False
            for line in answer:
                if line.startswith(b"data:"):
                    ended = line[5:].strip() == b"[DONE]"
                    events += not ended
                    if events == 1 and not ended:
                        first = time.perf_counter() - begin
            if not events or not ended:
                raise OSError(f"the answer ended after {events} events, before its [DONE]")
            self.firsts.append(first)
            self.tokens += events
            return None

    def __call__(self):
        try:
            return self._send()
        except urllib.error.HTTPError as e:
            key = own_key(self.url) if e.code == 401 and "Authorization" not in self.headers else ""
            if not key:
                raise
            self.headers["Authorization"] = f"Bearer {key}"
            return self._send()

    def first_tokens(self):
        """Of a server that streams: seconds to the first token since the last time this was asked."""
        firsts, self.firsts = self.firsts, []
        return {"first_token_s": firsts} if firsts else {}

    def close(self):
        pass


class Started(Server):
    """`trine serve MODEL` as a process of ours, on loopback, with a key of its own; it ends with us."""

    def __init__(self, trine, model, folder, options, body=None, prompt=PROMPT, output=OUTPUT):
        self.words = [trine, "serve", model, "--json", "--key-file", str(Path(folder) / "key"), "--state", str(Path(folder) / "state"), *options]
        self.log, self.process, self.port = Path(folder) / "serve.log", None, 0
        took = self.start()
        try:
            chat = bool(body) and b'"messages"' in Path(body).read_bytes()
            path = "" if not body else "/chat/completions" if chat else "/completions"
            super().__init__(f"http://127.0.0.1:{self.port}/v1{path}", body, prompt, output)
        except BaseException:
            self.close()
            raise
        self.load_s = took

    def start(self):
        """Seconds until it answers."""
        begin = time.perf_counter()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.words, "--port", str(self.port)], stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True)
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait(START_S)
            shown = self.log.read_text(errors="replace").strip().splitlines()
            raise Stop(code if code > 0 else OUTSIDE, shown[-1].removeprefix("trine serve: ") if shown else f"trine serve ended with {code}")
        self.port = urllib.parse.urlsplit(json.loads(line)["url"]).port
        return time.perf_counter() - begin

    def __call__(self):
        self.headers.setdefault("Authorization", f"Bearer {(self.log.parent / 'key').read_text().strip()}")
        return super().__call__()

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


def target_of(asked, folder):
    """What was asked for, ready to be called; its process, where it has one, keeps its files in `folder`."""
    word = asked.words[0]
    typed = {t.split("=")[0] for t in asked.typed}
    sizes = [getattr(asked, name) if f"--{name}" in typed else usual for name, usual in (("prompt", PROMPT), ("output", OUTPUT))]
    if word == "serve":
        note(f"starting trine serve {asked.model}")
        options = [word for name in ("instance", "tp") if f"--{name}" in typed for word in (f"--{name}", str(getattr(asked, name)))]
        return Started(asked.trine, asked.model, folder, options, asked.body, *sizes)
    return Server(word, asked.body, *sizes) if word.startswith(("http://", "https://")) else Function(word)
