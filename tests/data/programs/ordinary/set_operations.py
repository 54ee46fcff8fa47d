a, b = {1, 2, 3, 4}, {3, 4, 5}
final_result = [sorted(a & b), sorted(a | b), sorted(a - b), sorted(a ^ b)]
# [[3, 4], [1, 2, 3, 4, 5], [1, 2], [1, 2, 5]]
