"""Calls a function with a module when a program imports it, so that nothing is imported for it before."""

import importlib.abc
import importlib.machinery
import sys


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.calls = {}

    def find_spec(self, name, path, target=None):
        call = self.calls.get(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if call else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            call(module)

        spec.loader.exec_module = exec_module
        return spec


_finder = _Finder()


def when_imported(name, call):
    """At once where it is imported already."""
    if name in sys.modules:
        return call(sys.modules[name])
    _finder.calls[name] = call
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
