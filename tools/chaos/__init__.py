"""Retinue's server under faults: killed at every point and at random, told to end, its database, disk
and clock against it, runs cancelled, approvals said twice, a tenant that sends the worst.

python -m chaos points | kills | postgres | terms | faults | cancels | human | overload | streams | neighbours
"""
