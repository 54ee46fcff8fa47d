import math

def integrate(f, a, b, n=10_000):
    h = (b - a) / n
    return h * (f(a) / 2 + sum(f(a + i * h) for i in range(1, n)) + f(b) / 2)

final_result = round(integrate(math.sin, 0, math.pi), 6)
# 2.0
