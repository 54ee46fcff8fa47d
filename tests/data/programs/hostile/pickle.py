import pickle
# ends: ModuleNotFoundError
