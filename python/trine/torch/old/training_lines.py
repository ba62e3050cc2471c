"""torch_xla.test.test_utils: what examples print while they train, and tensorboard's summaries where it is installed."""

import time

from trine.torch.old import ordinals


def print_training_update(device, step, loss, rate, global_rate, epoch=None, summary_writer=None):
    numbers = [f"Epoch={epoch}"] * (epoch is not None) + [f"Step={step}", f"Loss={float(loss):.5f}", f"Rate={rate:.2f}", f"GlobalRate={global_rate:.2f}"]
    print(f"| Training Device={device} {' '.join(numbers)} Time={time.asctime()}", flush=True)
    write_to_summary(summary_writer, dict_to_write={"loss": float(loss), "examples/sec": rate}, global_step=step)


def print_test_update(device, accuracy, epoch=None, step=None):
    numbers = [f"{name}={value}" for name, value in (("Step", step), ("Epoch", epoch), ("Accuracy", accuracy)) if value is not None]
    print(f"| Test Device={device} {' '.join(numbers)} Time={time.asctime()}", flush=True)


def get_summary_writer(logdir):
    """On the first process; None without a folder."""
    if not logdir or not ordinals.is_master_ordinal(local=False):
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(log_dir=logdir)


def write_to_summary(summary_writer, global_step=None, dict_to_write=None, write_xla_metrics=False):
    for name, value in (dict_to_write or {}).items() if summary_writer is not None else ():
        summary_writer.add_scalar(name, value, global_step)


def close_summary_writer(summary_writer):
    if summary_writer is not None:
        summary_writer.flush()
        summary_writer.close()
