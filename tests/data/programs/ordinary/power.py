# Calculate 47^0.23
result = 47 ** 0.23
final_result = result
# 2.4242784855673896
