final_result = [0] * 20_000
# ends: the result is too large
