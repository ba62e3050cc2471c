"""`trine batch --ray`: the same job over Ray. The driver has the files, workers answer lines.

A worker holds `tp` of Ray's own neuron_cores and one copy of the model. What steps take is timed by the driver, once for all.
A line is done when the driver has written it, so a worker that dies costs what it had in hand, and a driver that dies is started
again like any other batch.
"""

import asyncio
import collections
import contextlib
import os
import sys

from trine.command import OUTSIDE, UNSUPPORTED, Stop, note

TRIES = 3  # workers that may die one after the other without a line between them
FINDS = "/opt/aws/neuron/bin/neuron-ls"  # the path that Ray runs on each node to count cores


class Worker:
    """One copy of the model in a process of Ray's; `answer` is called for many lines at once."""

    def __init__(self, model, instance, tp, at_once, cost):
        from trine.serve import opening
        from trine.serve.command import server_of

        try:
            opened = opening.open_model(model, instance, tp, options={"running_most": at_once}, cost=cost)
        except Stop as e:  # carries no code through Ray
            raise RuntimeError(str(e)) from None
        self.server = server_of(opened, None, [{"key": "in this process", "name": "batch"}])
        self.held, self.began = None, asyncio.Lock()

    async def ready(self):
        """The cores that Ray gave it."""
        async with self.began:
            if self.held is None:
                self.held = self.server.lifespan()
                await self.held.__aenter__()
        return {"pid": os.getpid(), "cores": os.environ.get("NEURON_RT_VISIBLE_CORES", "")}

    async def answer(self, number, path, body):
        """(the line, what it took, chip seconds of this worker so far)"""
        from trine.serve.batch_command import answered

        await self.ready()
        row, took = await answered(self.server, number, path, body)
        return row, took, self.server.stats().get("chip_s", 0.0)


def connected(address, tp):
    """(Ray, neuron cores it found)"""
    try:
        import ray
    except ImportError:
        raise Stop(UNSUPPORTED, "--ray runs the job on Ray, which is not installed: pip install ray") from None
    try:
        ray.init(address=address, include_dashboard=False if address == "local" else None, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as e:
        raise Stop(OUTSIDE, f"no Ray at {address}: {str(e).splitlines()[0]}") from None
    cores = int(ray.cluster_resources().get("neuron_cores", 0))
    if cores < tp:
        raise Stop(OUTSIDE, f"Ray found {cores} neuron_cores, and a copy takes {tp}. It counts them with {FINDS} on each node when it starts; "
                            f"for virtual ones: sudo mkdir -p {os.path.dirname(FINDS)} && sudo ln -s $(command -v neuron-ls trine) {os.path.dirname(FINDS)}")  # fmt: skip
    return ray, cores


class Crew:
    """Workers and the lines each has in hand."""

    def __init__(self, ray, asked, count, cost):
        self.ray, self.asked = ray, asked
        self.at_once, self.tp = int(asked.at_once), int(asked.tp)
        kind = ray.remote(Worker).options(resources={"neuron_cores": self.tp}, num_cpus=1, max_concurrency=self.at_once + 1)
        self.make = lambda: kind.remote(asked.model, asked.instance, self.tp, self.at_once, cost)
        self.workers = [self.make() for _ in range(count)]
        self.hands = {}  # a call: (worker, its request)
        self.chip = collections.Counter()  # seconds of each worker that ever was
        self.died = 0  # in a row

    def fill(self, waiting):
        """Gives lines to whoever has a hand free."""
        busy = collections.Counter(worker for worker, _ in self.hands.values())
        for worker in self.workers:
            for _ in range(self.at_once - busy[worker]):
                if not waiting:
                    return
                request = waiting.popleft()
                self.hands[worker.answer.remote(*request)] = (worker, request)

    def taken(self, waiting):
        """(line, what it took) of those that are ready; a dead worker's lines wait again."""
        from ray.exceptions import RayActorError, RayTaskError

        ready, _ = self.ray.wait(list(self.hands), timeout=1.0)
        for call in ready:
            if call not in self.hands:  # a dead worker's, put back already
                continue
            worker, request = self.hands.pop(call)
            try:
                row, took, chip = self.ray.get(call)
            except RayActorError as e:
                self._replace(worker, request, waiting, e)
            except RayTaskError as e:
                raise Stop(OUTSIDE, f"a worker failed: {str(e.cause or e).splitlines()[-1]}; what is done stands in {self.asked.output}") from None
            else:
                self.died = 0
                self.chip[worker] = max(self.chip[worker], chip)
                yield row, took

    def _replace(self, worker, request, waiting, why):
        self.died += 1
        if self.died > TRIES:
            raise Stop(OUTSIDE, f"{self.died} workers died one after the other: {str(why).splitlines()[0]}; what is done stands in {self.asked.output}")
        note(f"a worker died; its lines go to another: {str(why).splitlines()[0]}")
        lost = [call for call, (whose, _) in self.hands.items() if whose is worker]
        waiting.extendleft([request, *(self.hands.pop(call)[1] for call in lost)])
        if worker in self.workers:
            self.workers[self.workers.index(worker)] = self.make()


def timed(asked):
    """What steps take on the instance, before there is a worker."""
    from trine.serve import model, opening

    path, _, _ = opening.find(asked.model)
    try:
        return model.cost_of(path, asked.instance, int(asked.tp), **opening.TIMES)
    except ValueError as e:
        raise Stop(UNSUPPORTED, f"{path}: {e}") from None


def work(asked, requests, output):
    """Answers what has no line yet; a report as `batch_command.report_of` makes it, with what Ray gave."""
    with contextlib.redirect_stdout(sys.stderr):  # where Ray tells of workers that died; ours is the report's alone
        return worked(asked, requests, output)


def worked(asked, requests, output):
    import time

    from trine.serve.batch_command import Progress, report_of

    cost = timed(asked)
    ray, cores = connected(asked.ray, int(asked.tp))
    try:
        waiting = collections.deque(r for r in requests if r[0] not in output.done)
        copies = cores // int(asked.tp)
        count = max(1, min(copies, int(ray.cluster_resources().get("CPU", 1)), -(-len(waiting) // int(asked.at_once))))
        crew = Crew(ray, asked, count, cost)
        progress = Progress(len(requests), len(requests) - len(waiting), copies, lambda: {"chip_s": sum(crew.chip.values())})
        if progress.skipped and not asked.json:
            note(f"{progress.skipped:,} of {progress.total:,} lines are there already")
        began = time.monotonic()
        crew.fill(waiting)
        while crew.hands:
            for row, took in crew.taken(waiting):
                output.write(row)
                progress.took(row, took)
            crew.fill(waiting)
        given = [ray.get(worker.ready.remote()) for worker in crew.workers] if progress.done > progress.skipped else []
        progress.show(last=True)
        return report_of(asked, progress, copies, time.monotonic() - began) | {"ray": {"neuron_cores": cores, "workers": given}}
    finally:
        ray.shutdown()
