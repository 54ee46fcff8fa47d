from itertools import accumulate

final_result = list(accumulate([10, 20, 30, 40]))
# [10, 30, 60, 100]
