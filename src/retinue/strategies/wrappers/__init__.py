"""Strategies that stand around another one."""
