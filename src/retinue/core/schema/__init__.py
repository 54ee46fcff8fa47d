"""Schemas of what tools take and agents answer, and patterns to which replies are held."""
