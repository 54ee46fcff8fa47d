final_result = len(("a" * 10**6).replace("a", "b" * 10**6))
# ends: MemoryError
