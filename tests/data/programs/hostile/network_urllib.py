from urllib.request import urlopen
final_result = urlopen("http://127.0.0.1:CANARY_PORT/").read()
# ends: ModuleNotFoundError
