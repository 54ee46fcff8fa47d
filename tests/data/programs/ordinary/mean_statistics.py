import statistics

data = [4, 8, 15, 16, 23, 42]
final_result = statistics.mean(data)
# 18
