"""Whole jitted programs as users write them, by kind; each module's functions are rows."""

from programs import algebra, data, loops, nets, signals, wide  # noqa: F401  (their rows)
from programs.row import DOUBLE, ROWS

__all__ = ["DOUBLE", "ROWS"]
