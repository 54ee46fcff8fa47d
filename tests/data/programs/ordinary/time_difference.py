from datetime import datetime

t1 = datetime(2024, 5, 1, 8, 15)
t2 = datetime(2024, 5, 2, 17, 45)
difference = t2 - t1
hours, rest = divmod(difference.total_seconds(), 3600)
final_result = f"{int(hours)} hours and {int(rest // 60)} minutes"
# '33 hours and 30 minutes'
