from collections import deque

queue = deque([1, 2, 3], maxlen=4)
queue.append(4)
queue.append(5)
queue.rotate(1)
final_result = list(queue)
# [5, 2, 3, 4]
