x = "a" * 10**6
while True:
    x.find("b")
# ends: TimeoutError
