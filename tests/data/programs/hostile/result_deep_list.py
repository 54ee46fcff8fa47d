x = []
for i in range(10_000): x = [x]
x
# ends: the result is too large
