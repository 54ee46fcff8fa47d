from datetime import date, timedelta

day, count = date(2024, 12, 1), 0
while day <= date(2024, 12, 31):
    if day.weekday() < 5:
        count += 1
    day += timedelta(days=1)
final_result = count
# 22
