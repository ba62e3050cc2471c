"""openai-agents: an agent with a tool, on the Responses API and on chat completions."""

import asyncio
import sys
from typing import Literal

sys.path.pop(0)
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402

url, key = sys.argv[1:]
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=url + "/v1", api_key=key)
called = []


@function_tool
def weather(city: Literal["Rome", "Oslo"]) -> str:
    """The weather of a city."""
    called.append(city)
    return "sunny"


async def main():
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        model = kind(model="smollm2", openai_client=client)
        plain = Agent(name="plain", instructions="Be brief.", model=model, model_settings=ModelSettings(max_tokens=1000, temperature=0))
        assert (await Runner.run(plain, "Say hello.")).final_output
        called.clear()
        tools = Agent(name="tools", instructions="Use the tool.", model=model, tools=[weather], model_settings=ModelSettings(max_tokens=1000, temperature=0, tool_choice="required"))
        await Runner.run(tools, "How is the weather in Rome?", max_turns=3)
        assert called, "the tool was not called"


asyncio.run(main())
