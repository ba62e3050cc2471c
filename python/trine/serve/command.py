"""`trine serve`: opens a model, listens, and says on stderr every few seconds how it goes while there is something to say."""

import asyncio
import contextlib
import json
import signal
import sys
import time

from trine.command import INTERRUPTED, OK, OUTSIDE, UNSUPPORTED, USAGE, Stop, note
from trine.serve import opening
from trine.text import byte_count

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def rows_of(asked):
    """Keys: those of a file, or the one of this user, which may do everything."""
    from trine.serve import keys

    if asked.key:
        if asked.keys:
            raise Stop(USAGE, "--key and --keys; give one")
        if len(asked.key) < 8:
            raise Stop(USAGE, f"--key has {len(asked.key)} characters; at least 8 are expected")
        return [{"key": asked.key, "name": "owner", "admin": True}], "--key"
    if asked.keys:
        try:
            return keys.rows_of(asked.keys), asked.keys
        except ValueError as e:
            raise Stop(USAGE, str(e)) from None
    path = opening.key_path(asked.key_file)
    return [{"key": keys.own_key(path), "name": "owner", "admin": True}], str(path)


def server_of(opened, state, keys, limits=None, adapters=None):
    from trine.serve.server import Server

    return Server(opened.name, opened.text, opened.engine, context=opened.context, instance=opened.instance, state=state, keys=keys, limits=limits,
                  aliases=opened.aliases, adapters=adapters, facts=opened.facts)  # fmt: skip


def shown_home(path):
    home = str(opening.Path.home())
    return "~" + path[len(home) :] if path.startswith(home + "/") else path


def heading(opened, url, host, where, seconds):
    """The first lines, as a person reads them."""
    if opened.facts.get("stand_in"):
        return virtual_heading(opened, url, host, where)
    size = byte_count(opened.path.stat().st_size) if opened.path.is_file() else byte_count(sum(f.stat().st_size for f in opened.path.glob("*.safetensors")))
    kind = opened.path.stem.rsplit(".", 1)[-1] if opened.path.suffix == ".gguf" and "." in opened.path.stem else opened.path.suffix.lstrip(".") or "safetensors"
    seen = "loopback only" if host in LOOPBACK else f"open to whoever reaches {host}"
    stats = opened.engine.stats()
    return (f"{opened.name} ({kind}, {size}) as on {opened.instance}, on {url} — {seen}, key in {shown_home(where)}\n"
            f"  ready in {seconds:.1f} s · context {opened.context:,} · {stats['kv_pages_total']:,} KV pages")  # fmt: skip


def virtual_heading(opened, url, host, where):
    facts, stats = opened.facts, opened.engine.stats()
    seen = "loopback only" if host in LOOPBACK else f"open to whoever reaches {host}"
    many = f"{facts['copies']} copies" if facts["copies"] > 1 else "one copy"
    fast = "" if facts["speed"] == 1 else f", {facts['speed']:g} of its seconds in one"
    return (f"{opened.name} without weights, timed as {many} on {opened.instance}, tp {facts['tp']}{fast}, on {url} — {seen}, key in {shown_home(where)}\n"
            f"  answers are stand-ins, counted by {facts['tokenizer']} tokenizer · context {opened.context:,} · {stats['kv_pages_total']:,} KV pages")  # fmt: skip


async def load_adapters(server, rows):
    """--lora NAME=FOLDER: these are the owner's choice, so they may lie anywhere."""
    from trine.serve.errors import Wrong

    for row in rows:
        name, found, folder = row.partition("=")
        path = opening.Path(folder).expanduser()
        if not found or not path.is_dir():
            raise Stop(USAGE, f"--lora {row}: expected NAME=FOLDER, of a folder with adapter_config.json and adapter_model.safetensors")
        try:
            await server.add_adapter(name, path.resolve())
        except Wrong as e:
            raise Stop(UNSUPPORTED, f"--lora {row}: {e}") from None


def speculation(asked):
    """(draft, drafts, ngram) by our options, or by vLLM's JSON."""
    draft, drafts, ngram = asked.draft, asked.drafts, asked.ngram
    if asked.speculative_config:
        try:
            given = json.loads(asked.speculative_config)
        except ValueError as e:
            raise Stop(USAGE, f"--speculative-config is no JSON: {e}") from None
        if not isinstance(given, dict):
            raise Stop(USAGE, f"--speculative-config is {asked.speculative_config[:60]}; expected an object")
        method = given.get("method", "draft_model" if "model" in given else "ngram")
        if method not in ("ngram", "draft_model"):
            raise Stop(UNSUPPORTED, f'--speculative-config asks for "{method}"; guesses come by "ngram", or by "draft_model" with a "model"')
        draft = draft or (given.get("model") if method == "draft_model" else None)
        drafts = given.get("num_speculative_tokens", drafts) if drafts is None else drafts
        ngram = given.get("prompt_lookup_max", ngram)
        for name, value, least in (("num_speculative_tokens", drafts, 1), ("prompt_lookup_max", ngram, 2)):
            if type(value) is not int or not least <= value <= 32:
                raise Stop(USAGE, f'--speculative-config: "{name}" is {value!r}; expected a whole number from {least} to 32')
        if method == "draft_model" and not isinstance(draft, str):
            raise Stop(USAGE, f'--speculative-config: "model" is {draft!r}; expected a GGUF file or a folder')
    return draft, drafts, ngram


class Ticker:
    """One line about the last seconds, where requests ran in them."""

    def __init__(self, server):
        self.server = server
        self.before = self._now()

    def _now(self):
        stats = self.server.stats()
        metrics = self.server.metrics
        first = {clock: metrics.values["trine_time_to_first_token_seconds", clock] for clock in ("host", "chip")}
        return {"written": metrics.written, "usd": metrics.usd, "host": stats.get("host_s", 0.0), "chip": stats.get("chip_s", 0.0), "stats": stats,
                "first": {c: (h.sum, sum(h.counts)) for c, h in first.items()}}  # fmt: skip

    def line(self):
        old, new = self.before, self._now()
        self.before = new
        written = new["written"] - old["written"]
        guessed, right = (new["stats"].get(n, 0) - old["stats"].get(n, 0) for n in ("drafted_tokens", "accepted_tokens"))
        if not written and not new["stats"].get("running"):
            return None
        out = f"  {time.strftime('%H:%M:%S')}  {new['stats'].get('running', 0)} running  {new['stats'].get('waiting', 0)} waiting"
        for clock in ("host", "chip"):
            seconds, sums, count = new[clock] - old[clock], new["first"][clock][0] - old["first"][clock][0], new["first"][clock][1] - old["first"][clock][1]
            if seconds > 0 and written:
                out += f"   {clock} {written / seconds:,.0f} tok/s" + (f", ttft {1e3 * sums / count:.0f} ms" if count else "")
        if guessed:
            out += f"   {100 * right / guessed:.0f} % of {guessed:,} guesses right"
        return out + (f"   ${1e6 * (new['usd'] - old['usd']) / written:.2f} / 1M" if written else "")


async def serve(asked, opened, began):
    from trine.serve.listen import listening

    rows, where = rows_of(asked)
    limits = {"body": int(asked.max_body_mb) << 20, "request_s": float(asked.timeout_s)}
    server = server_of(opened, opening.state_path(asked.state), rows, limits, asked.adapters)
    if asked.lora:
        if opened.facts.get("stand_in"):
            raise Stop(USAGE, "--lora with --clock chip; without weights there is nothing to adapt")
        await load_adapters(server, asked.lora)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if asked.for_s:
        loop.call_later(float(asked.for_s), ended.set)
    try:
        async with listening(server, asked.host, int(asked.port), asked.tls_cert, asked.tls_key) as port:
            scheme = "https" if asked.tls_cert else "http"
            url = f"{scheme}://{'[' + asked.host + ']' if ':' in asked.host else asked.host}:{port}"
            took = time.monotonic() - began
            if asked.json:
                print(json.dumps({"version": 1, "report": "serve", "model": opened.name, "url": url, "key_file": None if asked.key else where, "instance": opened.instance,
                                  "ready_s": took, "context": opened.context, "kv_pages": opened.engine.stats()["kv_pages_total"],
                                  "clock": "chip" if opened.facts.get("stand_in") else "host"}), flush=True)  # fmt: skip
            else:
                note(heading(opened, url, asked.host, where, took))
            ticker = Ticker(server)
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), 5)
                if (line := ticker.line()) and not asked.json:
                    note(line)
    except OSError as e:
        raise Stop(OUTSIDE, f"cannot listen on {asked.host}:{asked.port}: {e.strerror or e}") from None
    return OK if asked.for_s else INTERRUPTED


def open_asked(asked):
    """With weights, or on the chip's clock without."""
    typed = asked.words[0] if asked.words else None
    draft, drafts, ngram = speculation(asked)
    if asked.clock == "chip":
        from trine.serve.virtual import open_virtual

        if draft or drafts:
            raise Stop(USAGE, "--draft and --drafts with --clock chip; how many guesses are right, only weights can tell")
        return open_virtual(typed, asked.instance, asked.tp, asked.name, asked.context, asked.batch, asked.pages, asked.speed, asked.copies, asked.tokenizer,
                            asked.answer_tokens, asked.chunk)  # fmt: skip
    options = {"running_most": asked.batch or 32, "pages": asked.pages, "chunk": asked.chunk, "drafts": drafts, "ngram": ngram}
    return opening.open_model(typed, asked.instance, asked.tp, asked.name, options, asked.context, opening.state_path(asked.state), draft=draft)


def run(asked):
    if asked.plan_buckets:
        from trine.serve.buckets import show

        return show(asked.plan_buckets, asked.json)
    began = time.monotonic()
    if bool(asked.tls_cert) != bool(asked.tls_key):
        raise Stop(USAGE, "--tls-cert and --tls-key go together")
    opened = open_asked(asked)
    sys.stdout.flush()
    return asyncio.run(serve(asked, opened, began))
