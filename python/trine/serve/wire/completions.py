"""POST /v1/completions: text or tokens in, several prompts at once, echo with log probabilities as lm-eval reads them."""

import asyncio

from trine.serve import http, job, tools
from trine.serve.errors import Wrong
from trine.serve.wire import chat

PROMPTS = 1024


async def prompts_of(server, model, body):
    given = body.get("prompt")
    if isinstance(given, str):
        given = [given]
    elif isinstance(given, list) and given and all(isinstance(t, int) for t in given):
        given = [given]
    if not isinstance(given, list) or not given:
        raise Wrong("prompt must be a string, a list of strings, a list of tokens or a list of those", 400, "prompt")
    if len(given) > PROMPTS:
        raise Wrong(f"{len(given)} prompts; at most {PROMPTS} at once", 400, "prompt")
    out = []
    for at, one in enumerate(given):
        if isinstance(one, str):
            if len(one) > model.context * model.text.longest:
                raise Wrong(f"This model's maximum context length is {model.context} tokens; the prompt has {len(one)} characters.", 400, "prompt", "context_length_exceeded")
            special = job.flag(body, "add_special_tokens", True)
            one = await server.desk.off_loop(model.text.encode, one, special) or [model.text.bos if model.text.bos is not None else model.text.ends[0]]
        elif isinstance(one, list) and one:
            one = job.tokens_of(one, model.text.size)
        else:
            raise Wrong(f"prompt[{at}] must be text or tokens", 400, "prompt")
        out.append(one)
    return out


async def jobs_of(server, body, key):
    model = server.model_named(body.get("model"))
    sampling = job.sampling_of(body, model)
    given = body.get("logprobs")
    shown = job.number(body, "logprobs", 0, 20, -1, int) if not isinstance(given, bool) else (1 if given else -1)
    echo = job.flag(body, "echo")
    sampling["logprobs"], sampling["prompt_logprobs"] = shown, shown if echo else job.number(body, "prompt_logprobs", 0, 20, -1, int)
    asked = job.number(body, "max_tokens", 0, 1 << 31, 16, int)
    form, stops = chat.wanted_form(body), job.stops_of(body)
    made = []
    for prompt in await prompts_of(server, model, body):
        # with echo and no new tokens one token is computed and not shown
        room = job.room_for(prompt, max(1, asked) if asked or echo else 1, model.context)
        made.append(job.Job(prompt, sampling | {"max_tokens": room}, stops, form, key=key.name, adapter=model.adapter,
                            session=job.text(body, "session"), echo=echo, special=job.flag(body, "skip_special_tokens", True) is False))  # fmt: skip
    return model, made, asked


def logprobs_of(text, entries, offset=0):
    """OpenAI's four parallel lists."""
    out = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for token, value, top in entries:
        name = text.name(token)
        out["tokens"].append(name)
        out["token_logprobs"].append(value)
        out["top_logprobs"].append({text.name(t): v for t, v in top} if top is not None else None)
        out["text_offset"].append(offset)
        offset += len(name)
    return out


def echo_entries(run):
    """The prompt's tokens with their log probabilities; the first has none."""
    given = list(run.prompt_logprobs or [])
    given = [None] * (len(run.job.prompt) - len(given)) + given  # the engine may leave the first out
    out = []
    for token, entry in zip(run.job.prompt, given, strict=True):
        value, top = (entry.get("logprob"), entry.get("top")) if isinstance(entry, dict) else entry if isinstance(entry, (tuple, list)) else (entry, [])
        out.append((token, value, (top or []) if value is not None else None))
    if out:
        out[0] = (out[0][0], None, None)
    return out


def choice_of(model, made, choice, at, run, hide):
    text = "" if hide else choice.text
    probs = None
    if made.sampling["logprobs"] >= 0:
        entries = [] if hide else choice.logprobs
        probs = logprobs_of(model.text, (echo_entries(run) if made.echo else []) + list(entries))
    if made.echo:
        text = model.text.decode(made.prompt, True) + text
    return {"index": at, "text": text, "logprobs": probs, "finish_reason": "length" if hide else chat.REASONS.get(choice.reason, "stop")}


def usage_of(runs, trine):
    out = chat.usage_of(runs[0], False)
    for run in runs[1:]:
        prompt, written, cached = run.usage()
        out["prompt_tokens"] += prompt
        out["completion_tokens"] += written
        out["total_tokens"] += prompt + written
        out["prompt_tokens_details"]["cached_tokens"] += cached
    if trine:
        out["trine"] = runs[0].trine() if len(runs) == 1 else [run.trine() for run in runs]
    return out


async def answer(server, body, key, trine=False):
    model, jobs, asked = await jobs_of(server, body, key)
    hide = asked == 0

    async def one(made):
        return await (await server.desk.submit(made)).all()

    tasks = [asyncio.ensure_future(one(made)) for made in jobs]
    try:
        runs = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    choices = [choice_of(model, r.job, c, 0, r, hide) for r in runs for c in r.choices]
    for at, choice in enumerate(choices):
        choice["index"] = at
    return chat.head(body, model, "text_completion", tools.new_id("cmpl")) | {"choices": choices, "usage": usage_of(runs, trine)}


async def pieces(server, body, key, trine):
    model, jobs, _ = await jobs_of(server, body, key)
    first = chat.head(body, model, "text_completion", tools.new_id("cmpl"))
    runs = [await server.desk.submit(made) for made in jobs]
    queue = asyncio.Queue(64)

    async def forward(number, run):
        try:
            async for piece in run:
                await queue.put((number, piece))
            await queue.put((number, None))
        except Wrong as wrong:
            await queue.put((number, wrong))

    tasks = [asyncio.ensure_future(forward(i, run)) for i, run in enumerate(runs)]
    try:
        for i, run in enumerate(runs):
            if run.job.echo:
                yield http.sse(first | {"choices": [{"index": i, "text": model.text.decode(run.job.prompt, True), "logprobs": None, "finish_reason": None}]})
        left = len(runs)
        while left:
            number, piece = await queue.get()
            if isinstance(piece, Wrong):
                raise piece
            if piece is None:
                left -= 1
                continue
            at = number * runs[number].job.choices + piece["choice"]
            probs = None
            if jobs[number].sampling["logprobs"] >= 0 and "token" in piece:
                probs = logprobs_of(model.text, [(piece["token"], piece["logprob"], piece["top"])])
            if piece["text"] or probs or "reason" in piece:
                reason = chat.REASONS.get(piece["reason"], "stop") if "reason" in piece else None
                yield http.sse(first | {"choices": [{"index": at, "text": piece["text"], "logprobs": probs, "finish_reason": reason}]})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    options = body.get("stream_options") or {}
    if trine or (isinstance(options, dict) and options.get("include_usage")):
        yield http.sse(first | {"choices": [], "usage": usage_of(runs, trine)})
    yield http.sse("[DONE]")


async def create(server, call):
    if job.flag(call.body, "stream"):
        return http.Events(await http.started(pieces(server, call.body, call.key, call.wants_trine)))
    return http.Json(await http.unless_gone(call, answer(server, call.body, call.key, call.wants_trine)))
