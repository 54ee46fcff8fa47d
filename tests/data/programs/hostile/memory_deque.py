from collections import deque
x = deque()
while True:
    x.append("x" * 1000)
# ends: MemoryError
