def make_multiplier(n):
    def multiply(x):
        nonlocal_total = x * n
        return nonlocal_total
    return multiply

double, triple = make_multiplier(2), make_multiplier(3)
final_result = double(5) + triple(5)
# 25
