import base64

encoded = base64.b64encode("Olivia Wilde".encode("utf-8")).decode("ascii")
final_result = (encoded, base64.b64decode(encoded).decode())
# ('T2xpdmlhIFdpbGRl', 'Olivia Wilde')
