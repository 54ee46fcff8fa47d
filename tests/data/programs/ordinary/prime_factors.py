def prime_factors(n):
    factors = []
    divisor = 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors

final_result = prime_factors(360360)
# [2, 2, 2, 3, 3, 5, 7, 11, 13]
