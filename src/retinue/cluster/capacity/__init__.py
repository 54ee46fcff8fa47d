"""How many workers a load needs: a simulation of a fleet's queues, CPU time and rate-limited model endpoints."""
