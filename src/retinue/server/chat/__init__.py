"""`/chat/completions`: each is a run, told as a completion."""
