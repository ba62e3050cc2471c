"""How far predictions are from what was measured: cases of published rows, their predictions, errors and bands by class.

`trine accuracy` is its command, docs/accuracy.md its page; `python/trine/estimate` takes its calibration from here.
"""
