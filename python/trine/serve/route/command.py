"""`trine route`: serve, report LOG, train LOG."""

import asyncio
import contextlib
import json
import signal

from trine.command import INTERRUPTED, OK, UNSUPPORTED, USAGE, Stop, note
from trine.serve import keys, opening
from trine.serve.route import learn, policies, report
from trine.serve.route.router import Router
from trine.serve.route.upstream import Local, Remote


def prices(text):
    try:
        one, two = (float(v) for v in text.split(","))
    except ValueError:
        raise Stop(USAGE, f"--remote-usd is {text!r}; expected two numbers: dollars for a million tokens of prompts and of answers") from None
    return one, two


def side_of(asked, given, inner, remote=False):
    """An upstream: an address, or a model in this process."""
    if given.startswith(("http://", "https://")):
        key = opening.Path(asked.remote_key).read_text().strip() if remote and asked.remote_key else None
        if key is None and opening.key_path().exists() and "127.0.0.1" in given:
            key = opening.key_path().read_text().strip()
        return Remote(given, key, asked.remote_model if remote else None, prices(asked.remote_usd))
    from trine.serve.command import server_of

    opened = opening.open_model(given, asked.instance)
    server = server_of(opened, None, [{"key": "in this process", "name": "owner"}])
    inner.append(server)
    return Local(server)


def router_of(asked, inner):
    if not asked.remote:
        raise Stop(USAGE, "--remote says where the large model is: an address or a model")
    rules = policies.RULES
    try:
        if asked.rules:
            rules = policies.checked_rules(json.loads(opening.Path(asked.rules).read_text()))
        classifier = learn.Classifier.load(asked.classifier) if asked.classifier else None
    except ValueError as e:
        raise Stop(UNSUPPORTED, str(e)) from None
    if asked.policy == "classifier" and classifier is None:
        raise Stop(USAGE, "--policy classifier needs --classifier FILE; `trine route train LOG` makes one")
    return Router(side_of(asked, asked.local, inner), side_of(asked, asked.remote, inner, True), asked.policy, float(asked.threshold), rules, classifier,
                  float(asked.budget_usd) if asked.budget_usd else None, float(asked.latency_ms) / 1e3 if asked.latency_ms else None,
                  float(asked.shadow), asked.log)  # fmt: skip


async def serve(asked):
    from trine.serve.listen import listening
    from trine.serve.route.app import RouteServer, app_of

    inner = []
    router = router_of(asked, inner)
    path = opening.key_path(asked.key_file)
    server = RouteServer(router, [{"key": keys.own_key(path), "name": "owner", "admin": True}], inner)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    if asked.for_s:
        asyncio.get_running_loop().call_later(float(asked.for_s), ended.set)
    async with listening(server, asked.host, int(asked.port), app=app_of(server)) as port:
        url = f"http://{asked.host}:{port}"
        if asked.json:
            print(json.dumps({"version": 1, "report": "route", "url": url, "local": router.local.name, "remote": router.remote.name, "policy": router.policy}), flush=True)
        else:
            note(f"{router.local.name} here, {router.remote.name} behind, by {router.policy} on {url} — key in {path}")
        with contextlib.suppress(asyncio.CancelledError):
            await ended.wait()
    return OK if asked.for_s else INTERRUPTED


async def train(asked, log):
    prompts, labels = learn.examples(log)
    if len(set(labels.tolist())) < 2:
        raise Stop(UNSUPPORTED, f"{log}: {len(prompts)} requests answered by both sides, and all alike; more shadowed traffic is needed")
    inner = []
    local = side_of(asked, asked.local, inner)
    if not inner:
        raise Stop(USAGE, "train needs the small model here: --local MODEL")
    async with inner[0].lifespan():
        vectors = [await local.embedding(p) for p in prompts]
    right, guess = learn.left_out(vectors, labels)
    path = asked.output or "classifier.json"
    learn.fit(vectors, labels).save(path)
    found = {"version": 1, "report": "route train", "examples": len(prompts), "need_large": float(labels.mean()), "accuracy_left_out": right, "accuracy_guess": guess, "file": path}
    print(json.dumps(found) if asked.json else f"{len(prompts)} examples, {100 * labels.mean():.0f} % need the large model; right on {100 * right:.0f} % left out (a guess: {100 * guess:.0f} %) → {path}")
    return OK


def run(asked):
    what, *rest = asked.words or ["serve"]
    if what == "serve" and not rest:
        return asyncio.run(serve(asked))
    if what in ("report", "train") and len(rest) == 1:
        if what == "train":
            return asyncio.run(train(asked, rest[0]))
        found = report.report_of(rest[0])
        print(json.dumps(found) if asked.json else report.printed(found))
        return OK
    raise Stop(USAGE, "expected nothing, serve, report LOG or train LOG")
