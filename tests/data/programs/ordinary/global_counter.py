count = 0

def increment():
    global count
    count += 1

for _ in range(5):
    increment()
final_result = count
# 5
