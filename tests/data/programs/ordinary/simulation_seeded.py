import random

random.seed(42)
inside = sum(1 for _ in range(1000) if random.random() ** 2 + random.random() ** 2 <= 1)
final_result = 2.5 < 4 * inside / 1000 < 3.8
# True
