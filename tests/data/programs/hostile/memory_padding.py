final_result = f"{1:>1000000000}"
# ends: MemoryError
