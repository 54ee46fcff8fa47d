"""`/chat/completions`: each completion is a run."""
