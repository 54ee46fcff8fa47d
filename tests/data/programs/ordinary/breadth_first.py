from collections import deque

graph = {"A": ["B", "C"], "B": ["D"], "C": ["D", "E"], "D": ["F"], "E": ["F"], "F": []}

def shortest(start, goal):
    queue = deque([[start]])
    visited = {start}
    while queue:
        path = queue.popleft()
        if path[-1] == goal:
            return path
        for neighbour in graph[path[-1]]:
            if neighbour not in visited:
                visited.add(neighbour)
                queue.append(path + [neighbour])

final_result = shortest("A", "F")
# ['A', 'B', 'D', 'F']
