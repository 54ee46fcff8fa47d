"""What every route of the server stands on: requests, errors, streams, authentication, limits."""
