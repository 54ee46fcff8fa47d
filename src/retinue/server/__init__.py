"""The HTTP API: chat completions, responses, assistants, threads and files, on runs that survive."""
