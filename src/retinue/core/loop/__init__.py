"""The loop, which does what a strategy asks for, within budgets."""
