"""`trine chat`: one conversation in the terminal, with a model in this process or with a server."""

import asyncio
import json
import sys
import urllib.error
import urllib.request

from trine.command import INTERRUPTED, OK, OUTSIDE, Stop, note
from trine.serve import opening


def cost_line(took):
    """What an answer took, in both clocks."""
    host, chip = took.get("host") or {}, took.get("chip") or {}

    def ms(times, name):
        return f"{1e3 * times[name]:.0f} ms" if times.get(name) is not None else "–"

    return (f"  here {ms(host, 'ttft')} to the first token, {ms(host, 'total')} in all · {took['instance']} {ms(chip, 'ttft')}, {ms(chip, 'total')}"
            f" · {took['joules']:.3g} J · ${took['usd']:.3g}")  # fmt: skip


def body_of(asked, messages):
    body = {"messages": messages, "max_tokens": int(asked.max_tokens), "temperature": float(asked.temperature), "trine": True}
    return body | ({"seed": int(asked.seed)} if asked.seed else {})


class Remote:
    """A server's chat completions."""

    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/").removesuffix("/v1"), key

    async def ask(self, body, show):
        return await asyncio.to_thread(self._ask, body, show)

    def _ask(self, body, show):
        heads = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body | {"stream": True}).encode(), heads)
        text, took = "", None
        try:
            with urllib.request.urlopen(request) as answer:
                for line in answer:
                    data = line.decode().strip().removeprefix("data: ")
                    if not data or data == "[DONE]":
                        continue
                    chunk = json.loads(data)
                    if "error" in chunk:
                        raise Stop(OUTSIDE, chunk["error"]["message"])
                    for choice in chunk.get("choices", ()):
                        piece = choice["delta"].get("content") or ""
                        text += piece
                        show(piece)
                    took = (chunk.get("usage") or {}).get("trine") or took
        except urllib.error.HTTPError as e:
            raise Stop(OUTSIDE, f"{self.url}: {e.code}: {e.read().decode('utf-8', 'replace')[:300]}") from None
        except urllib.error.URLError as e:
            raise Stop(OUTSIDE, f"{self.url}: {e.reason}; is `trine serve` running?") from None
        return text, took


class Here:
    """A model in this process."""

    def __init__(self, server):
        self.server = server

    async def ask(self, body, show):
        from trine.serve.errors import Wrong
        from trine.serve.wire import chat

        try:
            _, made, _ = await chat.job_of(self.server, body, self.server.keys.keys[0])
            run = await self.server.desk.submit(made)
            async for piece in run:
                show(piece["text"])
        except Wrong as e:
            raise Stop(OUTSIDE, e.message) from None
        return run.choices[0].text, run.trine()


async def talk(asked, partner):
    messages = [{"role": "system", "content": asked.system}] if asked.system else []
    terminal = sys.stdin.isatty() and not asked.prompt

    def show(piece):
        if not asked.json:
            print(piece, end="", flush=True)

    async def once(line):
        messages.append({"role": "user", "content": line})
        text, took = await partner.ask(body_of(asked, messages), show)
        messages.append({"role": "assistant", "content": text})
        if asked.json:
            print(json.dumps({"version": 1, "report": "chat", "text": text, "trine": took}), flush=True)
        else:
            print(flush=True)
            if took:
                note(cost_line(took))

    if asked.prompt:
        await once(asked.prompt)
        return OK
    while True:
        if terminal:
            print("> ", end="", file=sys.stderr, flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return OK
        if line.strip():
            await once(line.strip())


async def here(asked):
    from trine.serve.command import server_of

    opened = opening.open_model(asked.words[0] if asked.words else None, asked.instance)
    server = server_of(opened, None, [{"key": "in this process", "name": "owner"}])
    if not asked.json:
        note(f"{opened.name} as on {opened.instance}" + ("; Ctrl-D ends" if sys.stdin.isatty() and not asked.prompt else ""))
    async with server.lifespan():
        return await talk(asked, Here(server))


def run(asked):
    try:
        if asked.url:
            path = opening.key_path(asked.key_file)
            key = path.read_text().strip() if path.exists() else ""
            return asyncio.run(talk(asked, Remote(asked.url, key)))
        return asyncio.run(here(asked))
    except KeyboardInterrupt:
        return INTERRUPTED
