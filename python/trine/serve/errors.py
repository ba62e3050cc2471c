"""What a request can do wrong, and the objects in which the official clients read it.

One exception, two spellings: OpenAI's {error: {message, type, param, code}} and Anthropic's {type: error, error: {…}}.
"""

TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
         405: "invalid_request_error", 408: "timeout_error", 409: "conflict_error", 413: "request_too_large",
         422: "invalid_request_error", 429: "rate_limit_error", 431: "invalid_request_error", 499: "cancelled", 500: "api_error", 503: "overloaded_error",
         504: "timeout_error"}  # fmt: skip


class Wrong(Exception):
    """An answer other than 200."""

    def __init__(self, message, status=400, param=None, code=None, kind=None, headers=None):
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code
        self.kind = kind or TYPES.get(status, "api_error")
        self.headers = headers or {}


def too_long(found, limit, asked=0):
    wanted = f"{found} in the prompt and {asked} asked for" if asked else f"{found} in the prompt"
    text = f"This model's maximum context length is {limit} tokens; {wanted}. Shorten the prompt or ask for fewer tokens."
    return Wrong(text, 400, "messages", "context_length_exceeded")


def no_model(name):
    return Wrong(f"The model {name!r} does not exist here; GET /v1/models lists what does.", 404, "model", "model_not_found")


def openai(wrong):
    return {"error": {"message": wrong.message, "type": wrong.kind, "param": wrong.param, "code": wrong.code}}


def anthropic(wrong):
    return {"type": "error", "error": {"type": wrong.kind, "message": wrong.message}}


def body_of(wrong, path):
    return anthropic(wrong) if path.startswith("/v1/messages") else openai(wrong)
