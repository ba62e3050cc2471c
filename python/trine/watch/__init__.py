"""Counters of virtual devices for the web: metrics for Prometheus, a page of charts, and what to send with a report."""
