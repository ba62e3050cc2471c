"""A process that loads a function and calls it once for each line it is sent: the copy that a fault of `trine bench` strikes.

Run as `python -m trine.decide.bench_copy FILE NAME`; answers go to the descriptor that stdout was, what the function prints to
stderr.
"""

import os
import sys


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from trine.command import Stop
    from trine.decide.bench_target import load_function

    try:
        call = load_function(sys.argv[1], sys.argv[2])
    except Stop as e:
        print(f"! {e}".replace("\n", " "), file=answers)
        return e.code
    print("ready", file=answers)
    for _ in sys.stdin:
        try:
            call()
            print("done", file=answers)
        except Exception as e:  # the user's own: a lost request
            print(f"! {type(e).__name__}: {e}".replace("\n", " "), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
