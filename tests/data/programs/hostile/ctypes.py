import ctypes
# ends: ModuleNotFoundError
