from datetime import date

final_result = [m for m in range(1, 13) if date(2024, m, 13).weekday() == 4]
# [9, 12]
