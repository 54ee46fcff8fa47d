"""`/responses`: each run is one response, plus another each time it resumes with client input."""
