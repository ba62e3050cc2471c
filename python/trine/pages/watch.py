"""`trine monitor --page PORT`: what virtual devices do now, for those without Grafana. The page shows neuron-monitor's document."""

import json
import threading
import time

from trine import _core
from trine.command import OK, OUTSIDE, Stop
from trine.pages import shell
from trine.pages.server import Server, serve_until_interrupted

FEWEST_S = 0.9  # between two readings


class Watch:
    """The newest document, and those before it for a few minutes."""

    MOST = 300

    def __init__(self, folder, instance):
        self.watcher, self.lock = _core.Watcher(folder, instance), threading.Lock()
        self.at, self.last, self.history = 0.0, None, []

    def now(self, _query=None):
        """{document, pending, history: [[seconds, utilisation, dollars, watts]]}."""
        with self.lock:
            now = time.time()
            if self.last is None or now - self.at >= FEWEST_S:
                self.last, self.at = json.loads(self.watcher.document(1.0)), now
                self.history = [*self.history[-self.MOST + 1 :], [now, *summed(self.last)]]
            return {"document": self.last, "pending": self.watcher.pending, "history": self.history}


def summed(document):
    """Mean utilisation of the cores in use in percent, dollars so far and watts, over all processes."""
    shares, dollars, watts = [], 0.0, 0.0
    for runtime in document["neuron_runtime_data"]:
        report = runtime["report"]
        shares += [core["neuroncore_utilization"] for core in report["neuroncore_counters"]["neuroncores_in_use"].values()]
        dollars += report["trine"]["usd_total"]
        watts += sum(core["watts"] for core in report["trine"]["cores"].values())
    return [sum(shares) / len(shares) if shares else 0.0, dollars, watts]


def run(asked):
    """Serves until Ctrl-C."""
    if not (asked.folder or _core.counters_folder()):
        raise Stop(OUTSIDE, "TRINE_COUNTERS=off: processes publish nothing")
    watch = Watch(asked.folder or "", asked.instance or "")
    server = Server({"/": shell.live("devices", "watch")}, shell.files(), {"/api/now": watch.now}, host=asked.address, port=int(asked.page))
    serve_until_interrupted(server, server.url)
    return OK
