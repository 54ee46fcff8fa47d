import cmath

a, b, c = 1, 2, 5
d = cmath.sqrt(b ** 2 - 4 * a * c)
final_result = ((-b + d) / (2 * a), (-b - d) / (2 * a))
# ((-1+2j), (-1-2j))
