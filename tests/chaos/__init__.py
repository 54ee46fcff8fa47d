"""Retinue's server under faults: killed at every point and at random, cancelled, its approvals said twice.

python -m chaos points | kills | cancels | human | all
"""
