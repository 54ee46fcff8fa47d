x = {}
x['x'] = x
for i in range(1000): x = {'x': x}
x
# ends: the result is too large
