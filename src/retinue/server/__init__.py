"""The HTTP API: chat completions, assistants, threads and runs, on runs that survive."""
