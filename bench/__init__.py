"""Measurements of Retinue itself, against the same work done by hand. `python -m bench` runs them all."""
