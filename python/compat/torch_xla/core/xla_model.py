"""torch_xla.core.xla_model."""

from trine.torch.old.xla_model import *  # noqa: F403
from trine.torch.old.xla_model import _fetch_gradients, _maybe_convert_to_cpu  # noqa: F401
