x = {}
i = 0
while True:
    x[i] = [i] * 100
    i += 1
# ends: MemoryError
