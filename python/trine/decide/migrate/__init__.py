"""`trine migrate PROJECT.toml`: from a CUDA project to a decision, in six steps that go on where they were.

project.py reads the file, state.py keeps what is done, steps.py does it (baseline.py and evaluate.py the longer two),
report.py writes it down.
"""
