"""pytest for the whole tree: options, the .test collector, golden files, seeded hypothesis."""

import difflib
import os
import signal
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))  # the workers of xdist need it too

from hypothesis import settings  # noqa: E402
from text_runner import TextFile  # noqa: E402

# The same examples every time; a failure prints the line that reproduces it.
settings.register_profile("trine", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("trine")


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite golden files and expected blocks with what came out")
    parser.addoption("--differential", type=int, default=6, help="cases per row of tests/jax/differential.py")
    parser.addoption("--trine", default=str(TESTS.parent / "build/trine"), help="the trine command under test")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in the background; what tests start would not see Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.trine = Path(config.getoption("trine")).resolve()
    os.environ["PATH"] = f"{config.trine.parent}:{os.environ['PATH']}"
    os.environ["NEURON_COMPILE_CACHE_URL"] = str(config.trine.parent / "test-cache")  # never the user's own
    os.environ.setdefault("NEURON_CC_FLAGS", "--no_cache")
    os.environ["TRINE_COUNTERS"] = str(config.trine.parent / f"test-counters-{os.getpid()}")  # each worker's own
    os.environ.setdefault("TRINE_VERIFY_EACH", "1")  # what every pass leaves, in this process and those it starts


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".test":
        return TextFile.from_parent(parent, path=file_path)


@pytest.fixture(autouse=True)
def numbers_of_jax(request):
    """32 bits, JAX's default, wherever a test runs after those of the StableHLO reader, which want 64."""
    jax = sys.modules.get("jax")
    if hasattr(jax, "config"):
        jax.config.update("jax_enable_x64", "stablehlo" in request.path.parts)


@pytest.fixture(autouse=True)
def platform_of_jax():
    """As it was, after tests that call a command in this process: commands that only lower programs ask for the CPU."""
    before = os.environ.get("JAX_PLATFORMS")
    yield
    if before is None:
        os.environ.pop("JAX_PLATFORMS", None)
    else:
        os.environ["JAX_PLATFORMS"] = before


@pytest.fixture
def golden(request):
    """golden(path, text): text must equal the file, named from the test's folder; --update writes it."""

    def check(path: str, text: str):
        file = request.path.parent / path
        if request.config.getoption("update"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            return
        want = file.read_text() if file.exists() else ""
        diff = difflib.unified_diff(want.splitlines(), text.splitlines(), path, "got", lineterm="", n=2)
        assert text == want, "\n".join(diff) + "\n(--update accepts it)"

    return check


@pytest.fixture
def trine(request) -> Path:
    return request.config.trine
