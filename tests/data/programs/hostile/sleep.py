import time
time.sleep(5)
# ends: sleep limit exceeded
