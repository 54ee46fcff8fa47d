"""The studio's page, and what it shows beyond the runs: the served agents' structure and reports of evaluations."""
