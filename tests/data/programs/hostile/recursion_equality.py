a, b = [], []
for _ in range(100_000):
    a, b = [a], [b]
final_result = a == b
# ends: MemoryError
