final_result = len({frozenset([i]) for i in range(10**7)})
# ends: MemoryError
