nested = [[1, 2], [3, [4, 5]], 6]

def flatten(items):
    flat = []
    for item in items:
        if isinstance(item, list):
            flat.extend(flatten(item))
        else:
            flat.append(item)
    return flat

final_result = flatten(nested)
# [1, 2, 3, 4, 5, 6]
