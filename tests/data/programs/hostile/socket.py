import socket
# ends: ModuleNotFoundError
