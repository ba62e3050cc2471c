"""torch_xla._XLAC: the few of its functions that scripts and libraries call."""

from trine.torch.old.lazy_names import *  # noqa: F403
from trine.torch.old.lazy_names import __all__  # noqa: F401
