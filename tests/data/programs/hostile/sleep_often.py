import time
while True: time.sleep(0.001)
# ends: RuntimeError
