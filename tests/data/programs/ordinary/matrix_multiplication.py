A = [[1, 2], [3, 4]]
B = [[5, 6], [7, 8]]
final_result = [[sum(a * b for a, b in zip(row, col)) for col in zip(*B)] for row in A]
# [[19, 22], [43, 50]]
