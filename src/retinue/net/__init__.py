"""The one outbound client: its guard, the policy for addresses, connections, retries and rate limits."""
