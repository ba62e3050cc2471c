"""Chromium for tests of pages: no request may leave loopback, and no error may reach the console."""

import contextlib
import shutil
import urllib.parse

import pytest


def chromium():
    """The distribution's; a test that needs it is left out without."""
    found = shutil.which("chromium")
    if not found:
        pytest.skip("no chromium: setup/apt.sh setup/apt-browser.txt installs it")
    return found


class Watched:
    """A tab whose requests and complaints are kept."""

    def __init__(self, tab):
        self.tab, self.requests, self.complaints = tab, [], []
        tab.on("request", lambda r: self.requests.append(r.url))
        tab.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: self.complaints.append(str(e)))

    def check(self):
        hosts = {urllib.parse.urlsplit(u).hostname for u in self.requests if not u.startswith(("data:", "blob:", "file:"))}
        assert hosts <= {"127.0.0.1"}, hosts
        assert not self.complaints, self.complaints

    def open(self, url, view=None):
        self.tab.goto(url)
        self.ready(view)

    def view(self, name):
        """By its tab, as a person goes there."""
        self.tab.click(f'nav a[data-view="{name}"]')
        self.ready(name)

    def ready(self, view=None):
        self.tab.wait_for_selector(f'#view[data-ready="{view}"]' if view else "#view[data-ready]", timeout=60000)

    def text(self, selector="main"):
        return self.tab.inner_text(selector)


@contextlib.contextmanager
def browser():
    from playwright.sync_api import sync_playwright

    path = chromium()
    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"])
        try:
            yield started
        finally:
            started.close()


@contextlib.contextmanager
def tab(started, dark=False, width=1400, height=860):
    """A fresh one, checked when it is done with."""
    context = started.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    watched = Watched(context.new_page())
    try:
        yield watched
        watched.check()
    finally:
        context.close()
