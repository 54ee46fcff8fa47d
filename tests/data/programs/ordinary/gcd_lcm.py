import math
from functools import reduce

numbers = [12, 18, 24]
gcd = reduce(math.gcd, numbers)
lcm = reduce(lambda a, b: a * b // math.gcd(a, b), numbers)
final_result = {"gcd": gcd, "lcm": lcm}
# {'gcd': 6, 'lcm': 72}
