"""What models are told: tools, constraints, conversations; and tool results as data."""
