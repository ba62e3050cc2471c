"""neuronx_distributed.pipeline.scheduler: in which order a rank runs forwards and backwards of micro-batches and chunks."""

from typing import NamedTuple


class Task(NamedTuple):
    is_forward: bool
    mb: int
    chunk: int = 0


class InferenceSchedule:
    """All forwards; each chunk after the one before."""

    def __init__(self, num_microbatches, stages, stage_id, num_model_chunks=1):
        self._tasks = [Task(True, mb, c) for c in range(num_model_chunks) for mb in range(num_microbatches)]

    def __iter__(self):
        return iter(self._tasks)


class Train1F1BSchedule(InferenceSchedule):
    """Forwards until the last stage has work, then one forward and one backward in turn."""

    def __init__(self, num_microbatches, stages, stage_id):
        warm = min(stages - stage_id - 1, num_microbatches)
        self._tasks = [Task(True, mb) for mb in range(warm)]
        for mb in range(num_microbatches - warm):
            self._tasks += [Task(True, warm + mb), Task(False, mb)]
        self._tasks += [Task(False, mb) for mb in range(num_microbatches - warm, num_microbatches)]


class TrainInterleavedSchedule(InferenceSchedule):
    """Each rank has several chunks of layers, so that the bubble is as many times smaller."""

    def __init__(self, num_microbatches, num_model_chunks, stages, stage_id):
        if num_microbatches % stages:
            raise ValueError(f"interleaved pipeline: found {num_microbatches} micro-batches, expected a multiple of {stages}, the stages")
        total, window = num_microbatches * num_model_chunks, stages * num_model_chunks

        def task(is_forward, k):
            chunk = k % window // stages
            return Task(is_forward, k // window * stages + k % stages, chunk if is_forward else num_model_chunks - 1 - chunk)

        warm = total if num_microbatches == stages else min((stages - stage_id - 1) * 2 + (num_model_chunks - 1) * stages, total)
        self._tasks = [task(True, k) for k in range(warm)]
        for k in range(total - warm):
            self._tasks += [task(True, warm + k), task(False, k)]
        self._tasks += [task(False, k) for k in range(total - warm, total)]
