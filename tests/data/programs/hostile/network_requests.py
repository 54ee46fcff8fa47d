import requests
requests.get("http://127.0.0.1:CANARY_PORT/")
# ends: ModuleNotFoundError
