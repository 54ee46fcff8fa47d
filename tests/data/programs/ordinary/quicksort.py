def quicksort(items):
    if len(items) <= 1:
        return items
    pivot, *rest = items
    return quicksort([x for x in rest if x < pivot]) + [pivot] + quicksort([x for x in rest if x >= pivot])

final_result = quicksort([3, 6, 1, 8, 2, 9, 2])
# [1, 2, 2, 3, 6, 8, 9]
