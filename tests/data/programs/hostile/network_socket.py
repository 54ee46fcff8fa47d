import socket
s = socket.create_connection(("127.0.0.1", CANARY_PORT))
s.sendall(b"out")
# ends: ModuleNotFoundError
