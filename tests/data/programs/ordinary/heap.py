import heapq

numbers = [5, 1, 9, 3, 7]
final_result = heapq.nlargest(2, numbers)
# [9, 7]
