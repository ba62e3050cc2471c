"""Calls of functions in an answer: forced by a grammar, or found in the text a model chose to write."""

import json
import secrets

from trine.serve import grammar
from trine.serve.errors import Wrong

OPEN, CLOSE = "<tool_call>", "</tool_call>"
TOOLS = 128


def new_id(prefix="call"):
    return f"{prefix}_{secrets.token_hex(12)}"


def checked(tools):
    """A request's functions: {name: (description, schema)}."""
    if tools is None:
        return {}
    if not isinstance(tools, list) or len(tools) > TOOLS:
        raise Wrong(f"tools must be a list of at most {TOOLS} functions", 400, "tools")
    out = {}
    for at, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise Wrong(f"tools[{at}] must be {{type: function, function: {{name, …}}}}", 400, f"tools[{at}]")
        schema = function.get("parameters")
        if schema is not None and not isinstance(schema, dict):
            raise Wrong(f"tools[{at}].function.parameters must be a schema", 400, f"tools[{at}]")
        out[function["name"]] = schema or {"type": "object"}
    return out


class Calling:
    """What a request's `tools` and `tool_choice` mean: `force` is None, a function's name, or "" for any of them."""

    def __init__(self, body):
        self.tools, self.functions = body.get("tools") or None, checked(body.get("tools"))
        choice = body.get("tool_choice")
        self.force = None
        if choice in (None, "auto", "none"):
            if choice == "none" or not self.functions:
                self.tools, self.functions = None, {}
        elif choice == "required":
            self.force = ""
        elif isinstance(choice, dict) and choice.get("type") == "function":
            named = choice.get("function") or choice
            self.force = named.get("name") if isinstance(named, dict) else None
            if not isinstance(self.force, str) or not self.force:
                raise Wrong("tool_choice: a function has a name", 400, "tool_choice")
        else:
            raise Wrong(f"tool_choice is {choice!r}; expected auto, none, required or a function", 400, "tool_choice")
        if self.force is not None:
            if not self.functions:
                raise Wrong("tool_choice asks for a call, and there are no tools", 400, "tool_choice")
            if self.force and self.force not in self.functions:
                raise Wrong(f"tool_choice names {self.force!r}, which is none of the tools", 400, "tool_choice")
            if self.force == "" and len(self.functions) == 1:
                self.force = next(iter(self.functions))

    def grammar(self):
        if self.force is None:
            return None
        if self.force:
            return grammar.of_schema(self.functions[self.force], "tools")
        one = [{"type": "object", "properties": {"name": {"const": name}, "arguments": schema}, "required": ["name", "arguments"],
                "additionalProperties": False} for name, schema in self.functions.items()]  # fmt: skip
        return grammar.of_schema({"anyOf": one}, "tools")

    def found(self, text):
        """(what is left as text, calls [{id, name, arguments}]) of a whole answer."""
        if self.force:
            return None, [{"id": new_id(), "name": self.force, "arguments": text}]
        if self.force == "":
            calls = parse_call(text, self.functions)
            return (None, [calls]) if calls else (text, [])
        if not self.functions:
            return text, []
        calls, left, rest = [], "", text
        while OPEN in rest:
            before, _, rest = rest.partition(OPEN)
            inside, _, rest = rest.partition(CLOSE)
            call = parse_call(inside, self.functions)
            left += before if call else before + OPEN + inside
            calls += [call] if call else []
        left += rest
        if not calls and left.lstrip().startswith("{") and (call := parse_call(left, self.functions)):
            return None, [call]
        return (left.strip() or None if calls else left), calls


def parse_call(text, functions):
    """{id, name, arguments} if the text is a call of one of the functions."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.strip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or value["name"] not in functions:
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    return {"id": new_id(), "name": value["name"], "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}


class Sieve:
    """Streams text but holds back what may be a call: `push` returns what is surely text."""

    def __init__(self, calling):
        self.calling, self.held, self.calls_only = calling, "", calling.force is not None
        self.begun = False

    def push(self, text):
        if not self.calling.functions:
            return text
        self.held += text
        if self.calls_only:
            return ""
        if not self.begun and self.held.lstrip()[:1] in ("", "{"):  # a bare call, perhaps
            return ""
        self.begun = True
        at = self.held.find(OPEN)
        if at < 0:
            keep = max((n for n in range(1, len(OPEN)) if self.held.endswith(OPEN[:n])), default=0)
            at = len(self.held) - keep
        shown, self.held = self.held[:at], self.held[at:]
        return shown

    def end(self):
        """(text still to show, calls)"""
        if not self.calling.functions:
            return "", []
        left, calls = self.calling.found(self.held)
        return left or "", calls
