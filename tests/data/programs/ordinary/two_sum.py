def two_sum(numbers, target):
    seen = {}
    for index, number in enumerate(numbers):
        if target - number in seen:
            return [seen[target - number], index]
        seen[number] = index

final_result = two_sum([2, 7, 11, 15], 9)
# [0, 1]
