"""Metrics of a server or worker for Prometheus, on a port of their own: `docs/metrics.md` lists them.

`process_watch.ProcessWatch.add` is where they are made: each group is a class that is given the registry.
"""
