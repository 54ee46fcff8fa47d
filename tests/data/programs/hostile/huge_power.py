10**10**8
# ends: MemoryError
