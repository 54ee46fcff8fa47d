"""The agents that a server offers: by name, as a request changes them, and as a stored run began with them."""
