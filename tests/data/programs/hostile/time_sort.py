x = list(range(1000))
while True:
    x = sorted(x, reverse=True)
# ends: TimeoutError
