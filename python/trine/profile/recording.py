"""`with trine.profile.recorded("profile.ntff"):` around any code of a program that runs already: a profile of what runs inside.

For a whole program `trine profile capture -- python …` is simpler, and sees its other processes too.
"""

import os
import pathlib
import shutil
import sys
import tempfile

from trine import _core, timing
from trine.profile import assemble


class recorded:  # noqa: N801, as timed is
    """Writes `path` when the block is over; `info` then is what `trine.profile.open(path).info` is."""

    def __init__(self, path="profile.ntff", instance=None, auto_cast="none", events=assemble.EVENTS_MAX):
        self.path, self.instance, self.auto_cast, self.events, self.info = pathlib.Path(path), instance, auto_cast, events, None

    def __enter__(self):
        if _core.is_logging():
            raise RuntimeError("runs are recorded already: by `trine profile capture`, or by a block around this one")
        self._folder = tempfile.mkdtemp(prefix="trine-profile-")
        self._before, os.environ["TRINE_PROFILE_RECORD"] = os.environ.get("TRINE_PROFILE_RECORD"), self._folder
        self._stops = []
        _core.log_start(self._folder)
        self._stops.append(_core.log_stop)
        if module := timing._torch_module():
            module.log_start(self._folder)
            module.exchanged_start()
            self._stops += [module.exchanged_stop, module.log_stop]
        if (record := timing._jax_record()) is not None:
            record.library.trine_pjrt_log_start(self._folder.encode())
            self._stops.append(record.library.trine_pjrt_log_stop)
        return self

    def __exit__(self, kind, *_):
        for stop in self._stops:
            stop()
        os.environ.pop("TRINE_PROFILE_RECORD")
        if self._before is not None:
            os.environ["TRINE_PROFILE_RECORD"] = self._before
        try:
            if kind is None:
                self.info = assemble.from_record(self._folder, self.path, self.instance, self.auto_cast, self.events, command=[sys.executable, *sys.argv])
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
