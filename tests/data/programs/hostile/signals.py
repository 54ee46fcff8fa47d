import signal
signal.signal(signal.SIGALRM, signal.SIG_IGN)
while True:
    pass
# ends: ModuleNotFoundError
