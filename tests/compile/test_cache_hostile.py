"""The compile cache against a server and a folder that mean ill: nothing endless is read, nothing is written elsewhere."""

import http.server
import os
import resource
import stat
import subprocess
import threading

import pytest

from trine import _core

HASH = "ab" + "0" * 62
GRAPH = 'graph "g" (%0: f32[8,64]) {\n  %1 = tanh %0 : f32[8,64]\n  return %1\n}'


def listing(*keys, more=""):
    rows = "".join(f"<Contents><Key>{k}</Key><Size>9</Size><LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>" for k in keys)
    return f"<ListBucketResult>{rows}{more}</ListBucketResult>".encode()


class Server(http.server.BaseHTTPRequestHandler):
    pages, status, endless, asked = listing(), 200, "", []

    def do_GET(self):
        type(self).asked.append(self.path)
        is_list = "list-type=2" in self.path
        self.send_response(self.status)
        self.send_header("location", "file:///etc/passwd")
        self.end_headers()
        try:
            self.wfile.write(self.pages if is_list else b"trine cache entry 2\n")
            while self.endless == ("list" if is_list else "entry"):
                self.wfile.write(b"<x/>" * (1 << 16))
        except OSError:
            pass  # the other side had enough

    def do_PUT(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def s3(tmp_path):
    kind = type("One", (Server,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kind.environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
                        "NEURON_COMPILE_CACHE_URL": "s3://bucket/x", "XDG_CACHE_HOME": str(tmp_path / "own")}  # fmt: skip
    yield kind
    server.shutdown()
    server.server_close()


def cache(trine, environment, *words, memory=None):
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory else None
    return subprocess.run([trine, "cache", *words], env={**os.environ, **environment}, capture_output=True, text=True, timeout=100,
                          preexec_fn=limit)  # fmt: skip


def test_keys_that_lead_elsewhere_are_no_entries(trine, s3, tmp_path):
    s3.pages = listing("x/v1/../../../../../../tmp/evil.entry", "x/v1/a/../../b.entry", "x/v1/.entry", "x/v1/" + "Z" * 64 + ".entry")
    assert "copied 0 entries" in cache(trine, s3.environment, "export", "--to", str(tmp_path / "to")).stdout
    assert all("evil" not in path for path in s3.asked)


def test_a_listing_without_an_end(trine, s3):
    s3.endless = "list"
    done = cache(trine, s3.environment, "ls")
    assert done.returncode != 0 and "answers more than 16.8 MB" in done.stderr


def test_pages_without_an_end(trine, s3):
    s3.pages = listing(more="<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>")
    done = cache(trine, s3.environment, "ls")
    assert done.returncode != 0 and "it names the same page twice" in done.stderr


def test_an_entry_without_an_end(trine, s3):
    if "asan" in str(trine):
        pytest.skip("a sanitizer takes terabytes of addresses")
    s3.pages, s3.endless = listing(f"x/v1/{HASH}.entry"), "entry"
    done = cache(trine, s3.environment, "verify", memory=400 << 20)
    assert done.returncode == 1 and "answers more than" in done.stdout


def test_redirects_are_not_followed(trine, s3):
    s3.status = 307
    done = cache(trine, s3.environment, "ls")
    assert done.returncode != 0 and "307" in done.stderr and "root:" not in done.stdout + done.stderr


@pytest.mark.parametrize("endpoint", ["file:///etc", "ftp://127.0.0.1", "gopher://x", "nowhere"])
def test_only_http_and_https(trine, s3, endpoint):
    done = cache(trine, {**s3.environment, "AWS_ENDPOINT_URL": endpoint}, "ls")
    assert done.returncode != 0 and "expected http://host:port or https://host" in done.stderr


def test_a_failed_store_is_said(trine, s3, tmp_path):
    s3.status = 404  # nothing is found; then PUT fails
    model = tmp_path / "m.stablehlo"
    model.write_text("module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.tanh %x : tensor<4xf32>\n return %0 : tensor<4xf32> } }")
    environment = {**os.environ, **s3.environment, "NEURON_CC_FLAGS": ""}
    done = subprocess.run([trine, "compile", model, "-o", tmp_path / "m.trn"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "what was made was not kept: cannot write s3://bucket" in done.stderr and "cached as" not in done.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "deep/cache"))
    monkeypatch.setenv("NEURON_CC_FLAGS", "")
    return tmp_path / "deep/cache"


def compiled():
    return _core.compile_device(GRAPH.encode(), "trn1")


def test_entries_are_their_owners(folder):
    old = os.umask(0)
    try:
        compiled()
    finally:
        os.umask(old)
    (entry,) = folder.rglob("*.entry")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert {stat.S_IMODE(f.stat().st_mode) for f in [folder.parent, folder, *folder.rglob("*")] if f.is_dir()} == {0o700}


def test_an_entry_that_says_nothing_is_made_again(folder, trine):
    first = compiled()
    (entry,) = folder.rglob("*.entry")
    whole = entry.read_bytes()
    # whole and of the right key, with nothing in it that can be read
    done = subprocess.run([trine.parent / "test_compile", "--test-case=an entry of anything"], capture_output=True, text=True,
                          env={**os.environ, "TRINE_TEST_ENTRY": str(entry)})  # fmt: skip
    assert done.returncode == 0 and entry.read_bytes() != whole
    again = compiled()
    assert not again.found and "could not be read" in again.trouble and "was made again" in again.trouble
    assert again.program.disassemble() == first.program.disassemble()
    assert compiled().found and entry.read_bytes() == whole


def test_a_pipe_in_place_of_an_entry(folder):
    compiled()
    (entry,) = folder.rglob("*.entry")
    entry.unlink()
    os.mkfifo(entry)
    assert "it is a pipe" in compiled().trouble


def test_entries_are_signed_by_a_key(folder, monkeypatch):
    compiled()
    monkeypatch.setenv("TRINE_CACHE_KEY", "one")
    assert not compiled().found, "an entry that nobody signed"
    assert compiled().found
    monkeypatch.setenv("TRINE_CACHE_KEY", "two")
    assert not compiled().found, "an entry signed by another"
    (entry,) = folder.rglob("*.entry")
    altered = bytearray(entry.read_bytes())
    altered[-1] ^= 1
    entry.write_bytes(altered)
    assert not compiled().found
