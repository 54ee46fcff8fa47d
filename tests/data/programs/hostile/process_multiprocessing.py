from multiprocessing import Process
Process(target=print).start()
# ends: ModuleNotFoundError
