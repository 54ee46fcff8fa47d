final_result = sum(int(d) for d in str(2 ** 1000))
# 1366
