from decimal import Decimal, ROUND_HALF_UP

total = Decimal("19.99") * 3 + Decimal("4.95")
tax = (total * Decimal("0.19")).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
final_result = total + tax
# '77.25'
