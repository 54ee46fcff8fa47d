from collections import Counter
final_result = len(Counter(str(i) for i in range(10**8)))
# ends: MemoryError
