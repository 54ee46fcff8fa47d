fixed, price, cost = 12_000, 49.9, 18.5
import math
final_result = math.ceil(fixed / (price - cost))
# 383
