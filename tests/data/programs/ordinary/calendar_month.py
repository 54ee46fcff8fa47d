import calendar

final_result = calendar.monthrange(2024, 2)[1]
# 29
