values = [0.5, 1.5, 2.5, 2.675]
final_result = [round(v) for v in values] + [round(2.675, 2), -7 // 2, -7 % 3, divmod(17, 5)]
# [0, 2, 2, 3, 2.67, -4, 2, (3, 2)]
