def monthly_payment(principal: float, annual_rate: float, years: int) -> float:
    """Return the monthly payment of a loan."""
    r = annual_rate / 12
    n = years * 12
    return principal * r * (1 + r) ** n / ((1 + r) ** n - 1)

final_result = round(monthly_payment(300_000, 0.04, 30), 2)
# 1432.25
