"""Schemathesis over every operation of a real `retinue serve`: see docs/conformance.md."""
