"""Where the `trine` command enters Python: one call of run(asked) of the module that its row names.

Options arrive read and checked by the command's table (src/tools/commands/*.cpp), so nothing is parsed here. Data goes to
stdout, everything else to stderr.
"""

import gc
import importlib
import json
import os
import re
import sys
import traceback

OK, CHECK_FAILED, USAGE, UNSUPPORTED, OUT_OF_MEMORY, OUTSIDE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class Stop(Exception):
    """What keeps a command from going on, with its exit code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def note(text):
    print(text, file=sys.stderr, flush=True)


class Asked:
    """What was asked for: `options` by name, each also an attribute (--new-tokens is asked.new_tokens; None: not given and
    without a default), the `words`, the options as `typed`, each one word, and `trine`, the path of the command itself."""

    def __init__(self, text):
        asked = json.loads(text)
        self.options, self.words, self.typed = asked["options"], asked["words"], asked["typed"]
        self.command, self.module, self.trine = asked["command"], asked["module"], asked["trine"]

    def __getattr__(self, name):
        try:
            return self.__dict__["options"][name.replace("_", "-")]
        except KeyError:
            raise AttributeError(f"trine {self.command} has no option --{name.replace('_', '-')}") from None


def missing(name):
    """What to do about a module that is not there: the version Trine asks for, in the Python that runs."""
    import importlib.metadata  # which takes longer than most commands do

    name = name.split(".")[0]
    try:
        listed = importlib.metadata.requires("trine") or ()
    except importlib.metadata.PackageNotFoundError:
        listed = ()
    wanted = next((r.split(";")[0].strip() for r in listed if re.match(rf"{re.escape(name)}\b", r)), name)
    return f"{sys.executable} has no {name}; try  {sys.executable} -m pip install '{wanted}'"


def main(text) -> int:
    asked = Asked(text)
    try:
        return importlib.import_module(asked.module).run(asked)
    except Stop as e:
        note(f"trine {asked.command}: {e}")
        return e.code
    except ModuleNotFoundError as e:
        note(f"trine {asked.command}: {missing(e.name)}")
        return OUTSIDE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on; Python flushes at exit
        return OUTSIDE
    except OSError as e:
        note(f"trine {asked.command}: {f'{e.filename}: {e.strerror}' if e.filename and e.strerror else e}")
        return OUTSIDE
    except MemoryError as e:
        note(f"trine {asked.command}: {e or 'this machine has too little memory left'}")
        return OUT_OF_MEMORY
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as e:  # our own bug: one line, with its place
        *_, last = traceback.extract_tb(e.__traceback__)
        note(f"trine {asked.command}: internal error: {type(e).__name__}: {e} ({last.filename}:{last.lineno}); please report it")
        return OUTSIDE
    finally:
        gc.freeze()  # Python ends sooner when it does not look for cycles in all that was imported
