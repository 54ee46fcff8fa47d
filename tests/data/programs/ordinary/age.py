from datetime import date

def age(born, today):
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))

final_result = age(date(1975, 9, 18), date(2023, 4, 1))
# 47
