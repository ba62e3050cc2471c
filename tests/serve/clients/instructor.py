"""instructor: a typed answer by tools, by JSON and by schema."""

import sys

sys.path.pop(0)
import instructor  # noqa: E402
from openai import OpenAI  # noqa: E402
from pydantic import BaseModel  # noqa: E402

url, key = sys.argv[1:]


class Person(BaseModel):
    name: str
    age: int


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(OpenAI(base_url=url + "/v1", api_key=key), mode=mode)
    found = client.chat.completions.create(model="smollm2", response_model=Person, max_retries=2, max_tokens=80, temperature=0, messages=[{"role": "user", "content": "Ada is 36 years old."}])
    assert found.name and isinstance(found.age, int)
