from datetime import date, timedelta

final_result = (date(2024, 2, 28) + timedelta(days=2)).isoformat()
# '2024-03-01'
