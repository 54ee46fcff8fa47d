from decimal import Decimal, getcontext
getcontext().prec = 10**9
final_result = str(Decimal(1) / Decimal(3))
# ends: MemoryError
