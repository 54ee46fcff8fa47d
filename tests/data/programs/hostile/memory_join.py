final_result = len(",".join(["x" * 10**6] * 10**5))
# ends: MemoryError
