list(range(300_000))
# ends: MemoryError
