"""Real servers on loopback that stand in for other people's."""
