"""/metrics: ours, named as promtool wants them, and on another page the same under vLLM's names.

A histogram's buckets are vLLM's, so that dashboards keep their shape. The engine's counts are read when asked.
"""

import bisect
import threading

TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
ITL = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
E2E = (0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
VLLM = {
    "trine_requests_running": "vllm:num_requests_running", "trine_requests_waiting": "vllm:num_requests_waiting",
    "trine_kv_cache_usage_ratio": "vllm:kv_cache_usage_perc", "trine_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "trine_prefix_cache_hits_total": "vllm:prefix_cache_hits_total", "trine_prompt_tokens_total": "vllm:prompt_tokens_total",
    "trine_generation_tokens_total": "vllm:generation_tokens_total", "trine_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
    "trine_inter_token_latency_seconds": "vllm:inter_token_latency_seconds", "trine_request_duration_seconds": "vllm:e2e_request_latency_seconds",
    "trine_draft_tokens_total": "vllm:spec_decode_num_draft_tokens_total", "trine_accepted_tokens_total": "vllm:spec_decode_num_accepted_tokens_total",
    "trine_requests_finished_total": "vllm:request_success_total",
}  # fmt: skip


class Histogram:
    def __init__(self, bounds):
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value):
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name, labels):
        total = 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self.sum:.9g}"
        yield f"{name}_count{{{labels}}} {total}"


class Metrics:
    def __init__(self):
        self._lock = threading.Lock()
        self.histograms = {
            "trine_time_to_first_token_seconds": ("From arrival to the first token, by clock.", TTFT),
            "trine_inter_token_latency_seconds": ("Mean time between tokens of a request, by clock.", ITL),
            "trine_request_duration_seconds": ("From arrival to the last token, by clock.", E2E)}  # fmt: skip
        self.values = {(name, clock): Histogram(bounds) for name, (_, bounds) in self.histograms.items() for clock in ("host", "chip")}
        self.finished = {}
        self.answers = {}
        self.prompt = self.written = self.cached = self.queried = 0
        self.joules = self.usd = 0.0

    def done(self, run):
        """Counts a request that ended."""
        prompt, written, cached = run.usage()
        with self._lock:
            self.prompt, self.written, self.cached, self.queried = self.prompt + prompt, self.written + written, self.cached + cached, self.queried + prompt
            for choice in run.choices:
                reason = choice.reason or "cancelled"
                self.finished[reason] = self.finished.get(reason, 0) + 1
                self.joules += float(choice.end.get("joules") or 0)
                self.usd += float(choice.end.get("usd") or 0)
            times = run.choices[0].end.get("times") or {}
            if run.first_at:
                host = {"ttft": run.first_at - run.began, "total": run.last_at - run.began}
                self._times("host", host, len(run.choices[0].tokens))
            if times.get("chip"):
                self._times("chip", times["chip"], len(run.choices[0].tokens))

    def _times(self, clock, times, tokens):
        first, total = times.get("ttft"), times.get("total")
        if first is not None:
            self.values["trine_time_to_first_token_seconds", clock].add(first)
        if total is not None:
            self.values["trine_request_duration_seconds", clock].add(total)
            if first is not None and tokens > 1:
                self.values["trine_inter_token_latency_seconds", clock].add((total - first) / (tokens - 1))

    def answered(self, status):
        self.answers[status] = self.answers.get(status, 0) + 1

    def rows(self, server):
        """(name, kind, help, [(labels, value)])"""
        stats = server.stats()
        used, total = stats.get("kv_pages_used", 0), stats.get("kv_pages_total", 0) or 1
        gauges = [
            ("trine_requests_running", "Requests in the batch.", stats.get("running", 0)),
            ("trine_requests_waiting", "Requests that wait.", stats.get("waiting", 0)),
            ("trine_kv_cache_usage_ratio", "Share of KV pages in use.", used / total),
            ("trine_kv_pages", "KV pages there are.", stats.get("kv_pages_total", 0)),
            ("trine_sessions", "Sessions stored.", server.sessions_count()),
            ("trine_sessions_kv_bytes", "KV bytes of sessions on disk.", server.sessions_bytes()),
            ("trine_model_ready", "1 once the model answers.", int(server.ready)),
        ]  # fmt: skip
        counters = [
            ("trine_prompt_tokens_total", "Tokens of prompts.", self.prompt), ("trine_generation_tokens_total", "Tokens written.", self.written),
            ("trine_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", self.queried),
            ("trine_prefix_cache_hits_total", "Prompt tokens found there.", self.cached),
            ("trine_draft_tokens_total", "Tokens guessed.", stats.get("drafted_tokens", 0)),
            ("trine_accepted_tokens_total", "Guesses that were right.", stats.get("accepted_tokens", 0)),
            ("trine_engine_steps_total", "Steps of the engine.", stats.get("steps", 0)),
            ("trine_engine_host_seconds_total", "Time of the engine's steps on this host.", stats.get("host_s", 0.0)),
            ("trine_engine_chip_seconds_total", "Time of the same steps on the instance.", stats.get("chip_s", 0.0)),
            ("trine_energy_joules_total", "Energy on the instance.", self.joules), ("trine_cost_dollars_total", "Dollars of the instance.", self.usd),
        ]  # fmt: skip
        for name, text, value in gauges:
            yield name, "gauge", text, [("", value)]
        for name, text, value in counters:
            yield name, "counter", text, [("", value)]
        yield "trine_requests_finished_total", "counter", "Choices that ended, by reason.", [(f'finished_reason="{r}"', n) for r, n in sorted(self.finished.items())] or [('finished_reason="stop"', 0)]
        yield "trine_http_answers_total", "counter", "Answers by status.", [(f'status="{s}"', n) for s, n in sorted(self.answers.items())] or [('status="200"', 0)]

    def page(self, server, vllm=False):
        label = f'model_name="{escaped(server.model.name)}"'
        out = []
        with self._lock:
            for name, kind, text, values in self.rows(server):
                if vllm and name not in VLLM:
                    continue
                shown = VLLM[name] if vllm else name
                out += [f"# HELP {shown} {text}", f"# TYPE {shown} {kind}"]
                out += [f"{shown}{{{label}{',' + extra if extra else ''}}} {value:.9g}" for extra, value in values]
            for name, (text, _) in self.histograms.items():
                shown = VLLM[name] if vllm else name
                out += [f"# HELP {shown} {text}", f"# TYPE {shown} histogram"]
                for clock in ("host",) if vllm else ("host", "chip"):
                    out += self.values[name, clock].lines(shown, label if vllm else f'{label},clock="{clock}"')
        return "\n".join(out) + "\n"


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
