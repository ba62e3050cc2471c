"""torch_xla.test.test_utils: lines and summaries of a training loop."""

from trine.torch.old.training_lines import (
    close_summary_writer,
    get_summary_writer,
    print_test_update,
    print_training_update,
    write_to_summary,
)

__all__ = ["close_summary_writer", "get_summary_writer", "print_test_update", "print_training_update", "write_to_summary"]
