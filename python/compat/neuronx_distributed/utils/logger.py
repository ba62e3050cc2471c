"""neuronx_distributed.utils.logger: one logger, heard from the first rank. NXD_LOG_LEVEL chooses the level."""

import logging
import os


class _FirstRank(logging.Filter):
    def filter(self, record):
        return os.environ.get("RANK", "0") == "0"


def get_log_level():
    level = os.environ.get("NXD_LOG_LEVEL", "warning").upper()
    return {"OFF": logging.CRITICAL + 1, "TRACE": logging.DEBUG}.get(level) or getattr(logging, level, logging.WARNING)


def get_logger(name="neuronx_distributed", rank0_only=True):
    found = logging.getLogger(name)
    if not found.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[%(asctime)s: %(levelname).1s %(filename)s:%(lineno)d] %(message)s"))
        if rank0_only:
            handler.addFilter(_FirstRank())
        found.addHandler(handler)
        found.setLevel(get_log_level())
        found.propagate = False
    return found
