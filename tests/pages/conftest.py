"""One browser for a module of page tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def chromium_started():
    from browser import browser

    with browser() as started:
        yield started
