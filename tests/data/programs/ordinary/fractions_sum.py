from fractions import Fraction

final_result = str(Fraction(1, 3) + Fraction(1, 6))
# '1/2'
