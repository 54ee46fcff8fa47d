import importlib
importlib.import_module("subprocess")
# ends: ModuleNotFoundError
