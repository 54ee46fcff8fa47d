import hashlib
x = b""
while True:
    x = hashlib.sha256(x).digest()
# ends: TimeoutError
