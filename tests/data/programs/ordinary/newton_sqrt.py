def newton_sqrt(x, tolerance=1e-12):
    guess = x / 2
    while abs(guess * guess - x) > tolerance:
        guess = (guess + x / guess) / 2
    return guess

final_result = round(newton_sqrt(2), 10)
# 1.4142135624
