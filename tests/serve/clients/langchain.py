"""langchain-openai: invoke, stream, tools, structured output, the Responses API."""

import sys
from typing import Literal

sys.path.pop(0)
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic import BaseModel  # noqa: E402

url, key = sys.argv[1:]


class Person(BaseModel):
    name: str
    age: int


def weather(city: Literal["Rome", "Oslo"]) -> str:
    """The weather of a city."""
    return "sunny"


for responses in (False, True):
    model = ChatOpenAI(model="smollm2", base_url=url + "/v1", api_key=key, max_tokens=60, temperature=0, use_responses_api=responses)
    assert model.invoke("Say hello.").content
    assert "".join(str(chunk.text) for chunk in model.stream("Say hello."))
    found = model.with_structured_output(Person).invoke("Ada is 36 years old. Extract the person.")
    assert found.name and isinstance(found.age, int)
    called = model.bind_tools([weather], tool_choice="weather").invoke("How is the weather in Rome?")
    assert called.tool_calls[0]["name"] == "weather" and "city" in called.tool_calls[0]["args"]
