"""Trine: the Trainium stack on an ordinary machine.

One compiled program gives values, time and cost. The work is done in C++ (`trine._core`); this package
is the thin face to it and holds no computation of its own.
"""

from trine import _core

__version__: str = _core.version
