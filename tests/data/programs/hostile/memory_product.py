import itertools
final_result = len(list(itertools.product(range(100), repeat=5)))
# ends: MemoryError
