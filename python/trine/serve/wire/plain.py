"""The small paths: models, tokens, health, version, adapters, profiles, SageMaker's, embeddings."""

import asyncio
import base64
import struct
import time

from starlette.responses import Response

import trine
from trine.serve import http, job, tools
from trine.serve.errors import Wrong
from trine.serve.wire import chat, completions

INPUTS = 2048


def model_row(model):
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "trine", "root": model.root, "parent": model.parent,
            "max_model_len": model.context, "permission": []}  # fmt: skip


async def models(server, call):
    rows = [model_row(m) | server.desk.about for m in server.models.values()]
    if "anthropic-version" in call.headers:
        data = [{"type": "model", "id": r["id"], "display_name": r["id"], "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(r["created"]))} for r in rows]
        return http.Json({"data": data, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]})
    return http.Json({"object": "list", "data": rows})


async def model(server, call):
    return http.Json(model_row(server.model_named(call.path["name"])) | server.desk.about)


async def health(server, call):
    return Response(status_code=200 if server.ready else 503)


async def version(server, call):
    return http.Json({"version": trine.__version__})


async def tokenize(server, call):
    body = call.body
    model = server.model_named(body.get("model"))
    if body.get("messages") is not None:
        generation = job.flag(body, "add_generation_prompt", True)
        tokens = await chat.prompt_of(server, model, body["messages"], tools.Calling(body), generation=generation)
    else:
        prompt = job.text(body, "prompt")
        if prompt is None:
            raise Wrong("prompt or messages is required", 400, "prompt")
        tokens = await server.desk.off_loop(model.text.encode, prompt, job.flag(body, "add_special_tokens", True))
    shown = {"token_strs": [model.text.name(t) for t in tokens]} if job.flag(body, "return_token_strs") else {}
    return http.Json({"tokens": tokens, "count": len(tokens), "max_model_len": model.context} | shown)


async def detokenize(server, call):
    model = server.model_named(call.body.get("model"))
    tokens = call.body.get("tokens")
    if not isinstance(tokens, list):
        raise Wrong("tokens must be a list of tokens", 400, "tokens")
    return http.Json({"prompt": model.text.decode(job.tokens_of(tokens, model.text.size, "tokens"), True)})


async def tokenizer_info(server, call):
    text = server.model.text
    return http.Json({"tokenizer_class": type(text.tokenizer.model).__name__, "vocab_size": text.size, "bos_token": text.special.get(text.bos),
                      "eos_token": text.special.get(text.eos), "bos_token_id": text.bos, "eos_token_id": text.eos,
                      "add_bos_token": text.add_bos, "chat_template": text.template, "model_max_length": server.model.context})  # fmt: skip


async def embeddings(server, call):
    body = call.body
    model = server.model_named(body.get("model"))
    given = body.get("input")
    prompts = await completions.prompts_of(server, model, {"prompt": given, "model": body.get("model")})
    if len(prompts) > INPUTS:
        raise Wrong(f"{len(prompts)} inputs; at most {INPUTS} at once", 400, "input")
    wanted = job.number(body, "dimensions", 1, 1 << 20, None, int)
    form = job.text(body, "encoding_format", "float")
    if form not in ("float", "base64"):
        raise Wrong(f"encoding_format is {form!r}; expected float or base64", 400, "encoding_format")

    async def one(prompt):
        job.room_for(prompt, None, model.context + 1)
        made = job.Job(prompt, {"max_tokens": 1}, key=call.key.name, adapter=model.adapter, embed=True)
        return list(map(float, await (await server.desk.submit(made)).embedding()))

    vectors = await http.unless_gone(call, asyncio.gather(*map(one, prompts)))
    data = []
    for at, vector in enumerate(vectors):
        if wanted and wanted > len(vector):
            raise Wrong(f"dimensions is {wanted}; this model has {len(vector)}", 400, "dimensions")
        vector = vector[:wanted]
        size = sum(v * v for v in vector) ** 0.5 or 1.0  # of length one, as OpenAI's
        vector = [v / size for v in vector]
        shown = vector if form == "float" else base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": at, "embedding": shown})
    count = sum(map(len, prompts))
    return http.Json({"object": "list", "data": data, "model": body.get("model") or model.name, "usage": {"prompt_tokens": count, "total_tokens": count}})


async def load_adapter(server, call):
    name, path = job.text(call.body, "lora_name"), job.text(call.body, "lora_path")
    if not name or not path:
        raise Wrong("lora_name and lora_path are required", 400, "lora_name")
    await server.load_adapter(name, path, job.flag(call.body, "load_inplace"))
    return Response(f"Success: LoRA adapter '{name}' added successfully.", media_type="text/plain")


async def drop_adapter(server, call):
    name = job.text(call.body, "lora_name")
    await server.drop_adapter(name)
    return Response(f"Success: LoRA adapter '{name}' removed successfully.", media_type="text/plain")


async def profile_start(server, call):
    return http.Json(server.profile_start())


async def profile_stop(server, call):
    return http.Json(await server.profile_stop())


async def ping(server, call):
    return Response(status_code=200 if server.ready else 503)


async def invocations(server, call):
    """SageMaker's one path: whichever of the wires the body is of."""
    if "messages" in call.body:
        return await chat.create(server, call)
    if "prompt" in call.body:
        return await completions.create(server, call)
    if "input" in call.body:
        return await embeddings(server, call)
    raise Wrong("a body of /invocations has messages (chat), prompt (completions) or input (embeddings)", 400)
