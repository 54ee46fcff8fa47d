import builtins
builtins.__import__("os").system("id")
# ends: ModuleNotFoundError
