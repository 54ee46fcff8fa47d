"""Upgrades: databases of every version, opened by today's code, and servers that are replaced under load."""
