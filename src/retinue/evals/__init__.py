"""Evaluations of agents' answers: datasets, metrics, reports."""
