import hashlib

final_result = hashlib.sha256("retinue".encode()).hexdigest()[:12]
# '5cb816667b9a'
