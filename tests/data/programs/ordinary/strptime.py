from datetime import datetime

moment = datetime.strptime("2024-03-15 14:45", "%Y-%m-%d %H:%M")
final_result = (moment.year, moment.month, moment.day, moment.hour)
# (2024, 3, 15, 14)
