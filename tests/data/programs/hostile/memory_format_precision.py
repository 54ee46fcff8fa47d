final_result = len(f"{1.5:.999999999f}")
# ends: MemoryError
