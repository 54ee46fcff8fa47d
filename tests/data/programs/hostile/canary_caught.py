found = []
for way in (lambda: open("CANARY_FILE").read(), lambda: open("CANARY_FILE", "rb").read()):
    try:
        found.append(way())
    except Exception as error:
        found.append(type(error).__name__)
final_result = found
# gives: ['PermissionError', 'PermissionError']
