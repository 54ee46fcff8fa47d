"""`/assistants` and `/threads`: assistants, threads, messages, runs and run steps."""
