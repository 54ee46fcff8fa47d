from datetime import date

start = date(2023, 2, 6)
end = date(2024, 11, 25)
final_result = (end - start).days
# 658
