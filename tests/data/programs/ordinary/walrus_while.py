numbers = [5, 3, 8, 0, 9]
total, i = 0, 0
while (n := numbers[i]) != 0:
    total += n
    i += 1
final_result = total
# 16
