"""A served answer and what it takes: SmolLM2's real weights answer here, and the same steps are timed on three instances.

Not a server: `trine serve smollm2` is. It asks the engine directly and prints one row per instance.
"""

import asyncio
import sys

from trine.command import Stop
from trine.serve import opening
from trine.serve.command import server_of
from trine.serve.wire import chat
from trine.text import aligned

INSTANCES = ["inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge"]
TIMES = {"prompts": (128,), "batches": (1,), "contexts": (512,)}  # the programs that one short request runs
BODY = {"messages": [{"role": "user", "content": "Name the three primary colours."}], "max_tokens": 48, "temperature": 0}


async def ask(instance):
    opened = opening.open_model("smollm2", instance, times=TIMES)
    server = server_of(opened, None, [{"key": "in this process", "name": "owner"}])
    async with server.lifespan():
        return await chat.answer(server, BODY, server.keys.keys[0], True)


def main():
    rows, text = [("instance", "first token", "a token", "in all", "energy", "cost of a million such")], None
    for instance in INSTANCES:
        answer = asyncio.run(ask(instance))
        took, text = answer["usage"]["trine"], answer["choices"][0]["message"]["content"]
        chip = took["chip"]
        rows.append((instance, *(f"{1e3 * chip[name]:.2f} ms" for name in ("ttft", "per_token", "total")), f"{took['joules']:.2g} J", f"${1e6 * took['usd']:.2f}"))
    host = took["host"]
    print(f'you: {BODY["messages"][0]["content"]}\nsmollm2: {text}\n')
    print(f"here it took {1e3 * host['ttft']:.0f} ms to the first token, {1e3 * host['per_token']:.1f} ms a token; on the chip\n")
    print(aligned(rows, right=range(1, 6)))


if __name__ == "__main__":
    try:
        main()
    except Stop as e:
        sys.exit(f"served: {e}")
