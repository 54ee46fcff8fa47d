import os
while True:
    os.fork()
# ends: AttributeError
