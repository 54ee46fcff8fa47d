x = []
x.append(x)
for _ in range(2000):
    x = [x]
final_result = len(repr(x))
# gives: 203
