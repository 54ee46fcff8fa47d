while True: pass
# ends: TimeoutError
