def key(x):
    return sorted([3, 2, 1], key=key)

sorted([3, 2, 1], key=key)
# ends: RecursionError
