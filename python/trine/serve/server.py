"""A served model with everything around it: desk, keys, store, sessions, metrics, adapters. The HTTP app is app.py's.

`Server` is also what `trine batch`, `trine chat` and `trine route` hold when they run a model in their own process.
"""

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import re
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from trine.serve.desk import Desk
from trine.serve.errors import Wrong, no_model
from trine.serve.grammar import Grammars
from trine.serve.keys import Keys
from trine.serve.metrics import Metrics
from trine.serve.sessions import Sessions
from trine.serve.store import Store

ADAPTER = re.compile(r"layers\.(\d+)\.(?:self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj\.lora_([AB])(?:\.default)?\.weight$")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,95}")
LIMITS = {"body": 32 << 20, "request_s": 600.0}


@dataclasses.dataclass
class Served:
    """A name that requests may use."""

    name: str
    text: object
    context: int
    fingerprint: str
    created: int
    adapter: str | None = None
    root: str | None = None
    parent: str | None = None


def fingerprint_of(name, facts):
    stand_in = "stand_in_" if (facts or {}).get("stand_in") else ""
    return f"fp_{stand_in}" + hashlib.sha256(json.dumps([name, facts], sort_keys=True, default=str).encode()).hexdigest()[:12]


class Server:
    def __init__(self, name, text, engine, *, context, instance, state=None, keys=(), limits=None, aliases=(), adapters=None, facts=None):
        self.text, self.instance, self.facts = text, instance, facts or {}
        self.limits = LIMITS | (limits or {})
        self.store = Store(state)
        self.keys = Keys(keys, self.store)
        self.metrics = Metrics()
        self.adapters_folder = Path(adapters).expanduser().resolve() if adapters else None
        print_ = fingerprint_of(name, facts)
        self.model = Served(name, text, context, print_, int(time.time()), root=name)
        self.models = {name: self.model} | {a: dataclasses.replace(self.model, name=a) for a in aliases}
        self.engine = engine
        self.desk = Desk(engine, text, Grammars(text), instance, self._done)
        self.desk.time_limit = self.limits["request_s"]
        self.desk.about = {"stand_in": True} if self.facts.get("stand_in") else {}
        self.sessions = Sessions(self)
        self.ready = False
        self.live, self.tasks = {}, set()  # responses that run in the background
        self.profile, self.recording = None, None  # requests of the profile being recorded, and the folder of its runs

    def model_named(self, name):
        if name is None or name == "":
            return self.model
        if not isinstance(name, str) or name not in self.models:
            raise no_model(str(name)[:100])
        return self.models[name]

    @contextlib.asynccontextmanager
    async def lifespan(self, app=None):
        from trine.serve.wire import batches, responses

        self.desk.start()
        self.ready = True
        responses.resume(self)
        batches.resume(self)
        self.sessions.resume()
        sweeping = self.task(self._sweep())
        try:
            yield
        finally:
            self.ready = False
            sweeping.cancel()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            await self.desk.stop()
            self.store.close()
            if self.recording:  # nobody asked for it
                shutil.rmtree(self.recording, ignore_errors=True)

    async def _sweep(self):
        while True:
            await asyncio.sleep(5)
            self.store.sweep()
            self.sessions.sweep()

    def task(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def _done(self, run):
        self.metrics.done(run)
        prompt, written, _ = run.usage()
        self.keys.spend(run.job.key, prompt + written, run.usd())
        if self.profile is not None:
            self.profile.append({"name": f"request {run.number}", "ph": "X", "pid": 1, "tid": run.number, "ts": run.began * 1e6,
                                 "dur": ((run.last_at or run.began) - run.began) * 1e6,
                                 "args": {"prompt": prompt, "written": written, "trine": run.trine()}})  # fmt: skip

    def stats(self):
        return self.engine.stats()

    def sessions_count(self):
        return self.sessions.count()

    def sessions_bytes(self):
        return self.sessions.kv_bytes()

    # Adapters.
    async def load_adapter(self, name, path, in_place=False):
        if self.adapters_folder is None:
            raise Wrong("this server loads no adapters; start it with --adapters FOLDER", 400, "lora_path")
        found = (self.adapters_folder / path).resolve()
        if not found.is_relative_to(self.adapters_folder) or not found.is_dir():
            raise Wrong(f"lora_path is {path[:200]!r}; expected a folder inside the server's folder of adapters", 400, "lora_path")
        await self.add_adapter(name, found, path, in_place)

    async def add_adapter(self, name, folder, shown=None, in_place=False):
        """An adapter of any folder, by what its path is called outside."""
        if not NAME.fullmatch(name) or ".." in name:
            raise Wrong(f"lora_name is {name[:100]!r}; expected letters, digits and . _ : -", 400, "lora_name")
        if name in self.models and (not in_place or self.models[name].adapter is None):
            raise Wrong(f"The lora adapter '{name}' has already been loaded.", 400, "lora_name")
        tensors, scale = await self.desk.off_loop(read_adapter, folder)
        try:
            await self.desk.off_loop(self.engine.load_adapter, name, tensors, scale)
        except (ValueError, RuntimeError) as e:
            raise Wrong(f"the adapter does not fit this model: {e}", 400, "lora_path") from None
        self.models[name] = dataclasses.replace(self.model, name=name, adapter=name, root=shown or str(folder), parent=self.model.name, created=int(time.time()))

    async def drop_adapter(self, name):
        if name not in self.models or self.models[name].adapter is None:
            raise Wrong(f"The lora adapter '{str(name)[:100]}' cannot be found.", 404, "lora_name")
        del self.models[name]
        await self.desk.off_loop(self.engine.drop_adapter, name)

    # Profiles.
    def profile_start(self):
        """From now on: a trace of requests, and a profile of what their steps run on the chip."""
        from trine import _core

        if self.profile is not None:
            raise Wrong("a profile is being recorded", 409)
        self.profile, self.recording = [], None
        if not _core.is_logging():  # else `trine profile capture` records all of it
            self.recording = tempfile.mkdtemp(prefix="trine-profile-")
            _core.log_start(self.recording)
        return {"profiling": True}

    async def profile_stop(self):
        if self.profile is None:
            raise Wrong("no profile is being recorded", 409)
        events, self.profile = self.profile, None
        folder = (self.store.folder or Path(".")) / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"serve-{int(time.time() * 1000)}.json"
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
        out = {"profiling": False, "requests": len(events), "trace": str(path)}
        record, self.recording = self.recording, None
        return out if record is None else out | await asyncio.to_thread(profile_of, record, path.with_suffix(".ntff"))


def profile_of(record, path):
    """{profile: the file} of what was recorded, {} where no step ran."""
    from trine import _core
    from trine.profile import assemble

    _core.log_stop()
    try:
        assemble.from_record(record, path, command=["trine", "serve"])
        return {"profile": str(path)}
    except ValueError as e:
        path.unlink(missing_ok=True)
        return {} if "no program ran" in str(e) else {"profile": None, "why_not": str(e)}
    finally:
        shutil.rmtree(record, ignore_errors=True)


def adapter_name(name):
    """layers.3.q.a of …layers.3.self_attn.q_proj.lora_A.weight."""
    found = ADAPTER.search(name)
    if not found:
        raise ValueError(f"a tensor {name[:100]}; expected lora_A and lora_B of q, k, v, o, gate, up and down projections")
    return f"layers.{int(found[1])}.{found[2]}.{found[3].lower()}"


def read_adapter(folder):
    """(tensors, scale) of a PEFT folder."""
    from trine.models.safetensors import FileError, SafeTensors

    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        rank, alpha = float(config["r"]), float(config.get("lora_alpha", config["r"]))
        file = SafeTensors(folder / "adapter_model.safetensors")
        scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
        return {ours: np.ascontiguousarray(file[name], np.float32) for name in file.keys() if (ours := adapter_name(name))}, scale  # noqa: SIM118
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, FileError) as e:
        raise Wrong(f"{folder.name}: no LoRA adapter (adapter_config.json and adapter_model.safetensors): {e}", 400, "lora_path") from None
