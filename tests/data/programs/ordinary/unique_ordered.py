items = [3, 1, 3, 2, 1]
final_result = list(dict.fromkeys(items))
# [3, 1, 2]
