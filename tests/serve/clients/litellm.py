"""litellm: completion, streaming, a forced tool, a schema, errors by its own classes."""

import json
import sys

sys.path.pop(0)  # this folder has a file of the package's name
import litellm  # noqa: E402

url, key = sys.argv[1:]
at = {"api_base": url + "/v1", "api_key": key}
ask = [{"role": "user", "content": "Say hello."}]
tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}}
for provider in ("openai", "hosted_vllm"):
    answer = litellm.completion(model=f"{provider}/smollm2", messages=ask, max_tokens=8, **at)
    assert answer.choices[0].message.content and answer.usage.completion_tokens <= 8
    chunks = list(litellm.completion(model=f"{provider}/smollm2", messages=ask, max_tokens=8, stream=True, **at))
    assert "".join(c.choices[0].delta.content or "" for c in chunks)
    call = litellm.completion(model=f"{provider}/smollm2", messages=ask, tools=[tool], tool_choice={"type": "function", "function": {"name": "weather"}}, **at)
    assert json.loads(call.choices[0].message.tool_calls[0].function.arguments)["city"] in ("Rome", "Oslo")
try:
    litellm.completion(model="openai/smollm2", messages=[{"role": "user", "content": "word " * 20000}], **at)
    raise SystemExit("a prompt that is too long was taken")
except litellm.ContextWindowExceededError:
    pass
try:
    litellm.completion(model="openai/smollm2", messages=ask, api_base=url + "/v1", api_key="wrong")
    raise SystemExit("a wrong key was taken")
except litellm.AuthenticationError:
    pass
