def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b

numbers = fibonacci()
final_result = [next(numbers) for _ in range(10)]
# [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
