import math

final_result = math.comb(49, 6)
# 13983816
