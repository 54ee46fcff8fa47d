x = [1]
for i in range(60): x = [x, x]
x
# ends: the result is too large
