"""The rows: what each ATen overload is in StableHLO. Importing the package fills `rules.ROWS`."""

from trine.torch.rows import conv, foreach, index, kernel, matmul, norm, pointwise, random, reduce, shape, sharding  # noqa: F401
from trine.torch.rules import ROWS

__all__ = ["ROWS"]
