"""Messages into a prompt by the model's own chat template, in jinja2's sandbox.

A user's text is data: template syntax in it is never evaluated, and special tokens in it stay text. A template without
tools gets them in the form most small models were trained on (<tool_call>{…}</tool_call>).
"""

import datetime
import functools
import json

from trine.serve.errors import Wrong

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
TOOLS = (
    "You can call these functions:\n<tools>\n{}\n</tools>\nTo call one, answer with\n"
    '<tool_call>\n{{"name": <function>, "arguments": <object>}}\n</tool_call>'
)
OUTPUT_LIMIT = 64 << 20  # characters that a template may write


@functools.lru_cache(8)
def compiled(source):
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message):
        raise Wrong(f"the model's chat template refuses this conversation: {message}", 400, "messages")

    def to_json(value, indent=None, **_):
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.datetime.now().strftime(form)}
    try:
        return environment.from_string(source)
    except Exception as e:  # jinja2's own, and Python's where a template is too deep or no program
        raise Wrong(f"the model's chat template cannot be read: {e}"[:300], 400, "messages") from None


def flat(content, where="content"):
    """Content as text: a string, null, or a list of text parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Wrong(f"{where} is {type(content).__name__}; expected a string or a list of parts", 400, "messages")
    out = []
    for at, part in enumerate(content):
        if isinstance(part, str):
            out.append(part)
            continue
        if not isinstance(part, dict):
            raise Wrong(f"{where}[{at}] is {type(part).__name__}; expected an object with a type", 400, "messages")
        kind = part.get("type", "text")
        if kind in ("text", "input_text", "output_text", "refusal") and isinstance(part.get("text", part.get("refusal")), str):
            out.append(part.get("text", part.get("refusal")))
        else:
            raise Wrong(f"{where}[{at}] is of type {kind!r}; this model reads text", 400, "messages")
    return "".join(out)


def tool_text(call):
    function = call.get("function") or {}
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return f'<tool_call>\n{{"name": {json.dumps(function.get("name"))}, "arguments": {arguments}}}\n</tool_call>'


def without_tools(messages, tools):
    """The same conversation for a template that knows neither tools nor tool messages."""
    out = []
    for message in messages:
        role, content = message["role"], message["content"]
        if calls := message.get("tool_calls"):
            content = "\n".join(filter(None, [content, *map(tool_text, calls)]))
        if role == "tool":
            role, content = "user", f"<tool_response>\n{content}\n</tool_response>"
        out.append({"role": role, "content": content})
    if tools:
        listed = TOOLS.format("\n".join(json.dumps(t, ensure_ascii=False) for t in tools))
        if out and out[0]["role"] == "system":
            out[0] = out[0] | {"content": f"{out[0]['content']}\n\n{listed}"}
        else:
            out.insert(0, {"role": "system", "content": listed})
    return out


def prepared(text, messages):
    """Checked and guarded copies of a request's messages."""
    if not isinstance(messages, list) or not messages:
        raise Wrong("messages must be a list with at least one message", 400, "messages")
    out = []
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Wrong(f"messages[{at}] must be an object with a role and content", 400, "messages")
        role = {"developer": "system", "function": "tool"}.get(message["role"], message["role"])
        if role not in ("system", "user", "assistant", "tool"):
            raise Wrong(f"messages[{at}].role is {message['role']!r}; expected system, developer, user, assistant or tool", 400, "messages")
        one = {"role": role, "content": text.guarded(flat(message.get("content"), f"messages[{at}].content"))}
        calls = message.get("tool_calls")
        if calls is not None and not (isinstance(calls, list) and all(isinstance(c, dict) for c in calls)):
            raise Wrong(f"messages[{at}].tool_calls must be a list of objects", 400, "messages")
        if calls:
            one["tool_calls"] = json.loads(text.guarded(json.dumps(calls)))
        for key in ("tool_call_id", "name"):
            if isinstance(message.get(key), str):
                one[key] = text.guarded(message[key])
        out.append(one)
    return out


def render(text, messages, tools=None, add_generation_prompt=True, extra=None):
    """The prompt's text. Whatever the template cannot take is the request's error, never ours."""
    source = text.template or (CHATML if "<|im_start|>" in text.special.values() else PLAIN)
    knows_tools = "tools" in source
    messages = prepared(text, messages)
    if not knows_tools:
        messages = without_tools(messages, tools)
    names = {"bos_token": text.special.get(text.bos, ""), "eos_token": text.special.get(text.eos, "")}
    try:
        made = compiled(source).generate(messages=messages, tools=tools if knows_tools else None,
                                         add_generation_prompt=add_generation_prompt, **names, **(extra or {}))  # fmt: skip
        out, size = [], 0
        for piece in made:
            out.append(piece)
            size += len(piece)
            if size > OUTPUT_LIMIT:
                raise Wrong("the prompt is too long", 400, "messages", "context_length_exceeded")
        return "".join(out)
    except Wrong:
        raise
    except Exception as e:  # a template is a program: it can fail in any way that Python can
        raise Wrong(f"the model's chat template cannot take these messages: {e}"[:300], 400, "messages") from None
