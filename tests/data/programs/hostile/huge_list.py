[0] * 10**9
# ends: MemoryError
