from datetime import datetime

final_result = datetime(2024, 7, 4, 9, 30).strftime("%A, %d %B %Y at %H:%M")
# 'Thursday, 04 July 2024 at 09:30'
