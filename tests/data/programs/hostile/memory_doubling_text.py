x = "ab"
while True:
    x = x + x
# ends: MemoryError
