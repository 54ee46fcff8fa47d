"""The tests that the `openai` SDK ships, run against `retinue serve`: see docs/conformance.md."""
