try:
    1 / 0
finally:
    x = [0] * 10**9
# ends: MemoryError
