def compound_interest(principal, rate, years, times_per_year=12):
    return principal * (1 + rate / times_per_year) ** (times_per_year * years)

final_result = round(compound_interest(1000, 0.05, 10), 2)
# 1647.01
