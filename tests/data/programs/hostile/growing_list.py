x = []
while True: x.append('x' * 1000)
# ends: MemoryError
