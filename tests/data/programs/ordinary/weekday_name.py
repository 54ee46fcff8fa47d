from datetime import datetime

days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
final_result = days[datetime(2024, 2, 29).weekday()]
# 'Thursday'
