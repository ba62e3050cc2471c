"""A small model here, a large one elsewhere: policies that choose, caps, shadow, the log and what it says.

The wire is OpenAI's on both sides. A policy is a row (policies.py); whatever was chosen is logged with its reason.
"""
