"""Runs of agents in Python that survive: kept in a store by the same log, leases and rules as a server's, and driven in
this process with the agent's own objects. `Agent(store=…)` is the door to it."""
