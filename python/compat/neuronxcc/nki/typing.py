"""nki.typing: annotations of tiles; they say something to readers only."""

from trine.nki.typing import tensor

__all__ = ["tensor"]
