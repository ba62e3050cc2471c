"""neuronx_distributed.utils.utils: kinds of chips."""

import json
from enum import Enum
from pathlib import Path

from torch_neuronx.utils import get_platform_target  # noqa: F401


class hardware(Enum):  # noqa: N801 - NxD's name
    TRN1 = "trn1"
    TRN2 = "trn2"
    TRN3 = "trn3"
    INF2 = "inf2"

    @classmethod
    def _missing_(cls, value):
        """trn1n, trn2u and the like are their chip."""
        return next((h for h in cls if str(value).startswith(h.value)), None)


def get_dict_from_json(json_file):
    return json.loads(Path(json_file).read_text())
