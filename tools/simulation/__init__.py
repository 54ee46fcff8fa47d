"""A deterministic simulator: the product's own runs, store and people in one process, under a seeded scheduler with
virtual time, kills, pauses, lost answers and clocks that jump. After each schedule the promises are checked.

    python -m simulation --schedules 1000        python -m simulation --seed 42
"""
