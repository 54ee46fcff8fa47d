"""`/responses`: a run is a response, and one more each time it goes on after what its client said."""
