import threading

def spin():
    while True:
        pass

for _ in range(100):
    threading.Thread(target=spin).start()
# ends: ModuleNotFoundError
