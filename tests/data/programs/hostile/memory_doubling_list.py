x = [0]
while True:
    x += x
# ends: MemoryError
