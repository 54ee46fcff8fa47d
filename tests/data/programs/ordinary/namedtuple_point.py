from collections import namedtuple

Point = namedtuple("Point", ["x", "y"])
p = Point(3, 4)
final_result = (p.x ** 2 + p.y ** 2) ** 0.5
# 5.0
