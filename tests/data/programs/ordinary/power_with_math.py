import math

def power(base, exponent):
    return math.pow(base, exponent)

final_result = power(47, 0.23)
# 2.4242784855673896
