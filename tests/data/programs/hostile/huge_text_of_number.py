len(str(7**10000000))
# ends: the code was stopped: it did not end within 0.2 seconds
