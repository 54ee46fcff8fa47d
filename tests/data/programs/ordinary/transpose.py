matrix = [[1, 2, 3], [4, 5, 6]]
final_result = [list(row) for row in zip(*matrix)]
# [[1, 4], [2, 5], [3, 6]]
