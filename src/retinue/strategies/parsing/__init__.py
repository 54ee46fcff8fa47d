"""Tolerant parsers for every reply format."""
