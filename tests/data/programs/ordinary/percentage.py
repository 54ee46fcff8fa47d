price = 80
percent = 15
final_result = price * percent / 100
# 12.0
