"""MLPerf LoadGen's scenarios over a call of this machine, where `mlcommons-loadgen` is installed."""

import concurrent.futures
import tempfile
from pathlib import Path

from trine.command import OUTSIDE, Stop

SCENARIOS = {"offline": "Offline", "server": "Server", "single-stream": "SingleStream", "multi-stream": "MultiStream"}


def scenario(call, name, rate, seconds, workers=1, limit_ms=None):
    """LoadGen's own summary of a performance run of about `seconds`; its rules for a valid submission ask for 600.
    limit_ms: within which its server scenario wants 99 % of all answers."""
    try:
        import mlperf_loadgen as lg
    except ModuleNotFoundError:
        raise Stop(OUTSIDE, "--loadgen needs the package mlcommons-loadgen, which is not installed") from None
    settings = lg.TestSettings()
    settings.scenario, settings.mode = getattr(lg.TestScenario, SCENARIOS[name]), lg.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = int(1000 * seconds), 1
    if rate:
        settings.server_target_qps = settings.offline_expected_qps = rate
    if limit_ms:
        settings.server_target_latency_ns = int(1e6 * limit_ms)

    lost = []

    def one(sample):
        try:
            call()
        except Exception as e:  # LoadGen waits for every sample, answered or not
            lost.append(e)
        lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0)])

    def issue(samples):
        for sample in samples:
            pool.submit(one, sample)

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        logs = lg.LogSettings()
        logs.log_output.outdir, logs.log_output.copy_summary_to_stdout = folder, False
        sut, library = lg.ConstructSUT(issue, lambda: None), lg.ConstructQSL(64, 64, lambda _: None, lambda _: None)
        lg.StartTestWithLogSettings(sut, library, settings, logs)
        lg.DestroyQSL(library)
        lg.DestroySUT(sut)
        lines = Path(folder, "mlperf_log_summary.txt").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {key.strip().lstrip("* "): value.strip() for key, value in pairs} | ({"lost": len(lost)} if lost else {})
