celsius = [0, 20, 37, 100]
final_result = [round(c * 9 / 5 + 32, 1) for c in celsius]
# [32.0, 68.0, 98.6, 212.0]
