"""XLA's CPU in a process of its own: a program that ends that process, or damages its memory, leaves ours as it was."""

import contextlib
import multiprocessing

import jax
import random_programs


def serve(pipe):
    """What each program that comes gives on XLA's CPU, until none does."""
    jax.config.update("jax_platforms", "cpu")
    while True:
        try:
            program = pipe.recv()
        except EOFError:
            return
        pipe.send(random_programs.attempt(program, "cpu"))


class Reference:
    def __init__(self):
        self.start()

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self):
        self.pipe.close()
        self.process.join()

    def restart(self):
        self.stop()
        self.start()

    def begin(self, program):
        """Starts it; the caller may work until end()."""
        self.program = program
        with contextlib.suppress(BrokenPipeError):  # end() says so
            self.pipe.send(program)

    def end(self):
        """What the program gives, or as text why it gives nothing."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.stop()
            text = f"XLA's CPU ended its process: {self.process.exitcode}"
            print(f"# seed {self.program.seed}: {text}", flush=True)
            self.start()
            return text
