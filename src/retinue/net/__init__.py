"""The one outbound client: SSRF guard, URL policy, connections, retries and rate limits."""
