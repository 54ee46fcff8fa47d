def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)

final_result = factorial(25)
# 15511210043330985984000000
