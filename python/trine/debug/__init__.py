"""Where do the numbers go wrong: a model on the virtual chip against a baseline, and its values on the way.

    import trine.debug
    print(trine.debug.compare(model, x, baseline=reference))

docs/debug.md has all of it.
"""

from trine.debug.names import dump, fail_on_nan, replace

__all__ = ["Comparison", "compare", "dump", "fail_on_nan", "replace", "save"]


def __getattr__(name):
    """What needs more than NumPy is imported when it is asked for."""
    if name in ("Comparison", "compare"):
        import importlib

        return getattr(importlib.import_module("trine.debug.comparison"), name)
    if name == "save":
        from trine.debug.saved import save

        return save
    raise AttributeError(f"module 'trine.debug' has no attribute {name!r}")
