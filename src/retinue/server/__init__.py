"""The HTTP API: chat completions, responses, assistants, threads and files, backed by durable runs."""
