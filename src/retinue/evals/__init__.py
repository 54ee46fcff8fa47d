"""Measuring how well agents answer: datasets, metrics, reports."""
