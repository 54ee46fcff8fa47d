try:
    exec("open('CANARY_FILE').read()")
except PermissionError:
    final_result = "refused"
# gives: 'refused'
