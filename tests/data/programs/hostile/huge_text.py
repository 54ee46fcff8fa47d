'x' * 10**10
# ends: MemoryError
