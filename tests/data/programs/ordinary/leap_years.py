def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)

final_result = [y for y in range(1890, 1930) if is_leap(y)]
# [1892, 1896, 1904, 1908, 1912, 1916, 1920, 1924, 1928]
