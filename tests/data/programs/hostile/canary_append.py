with open("CANARY_FILE", "a") as file:
    file.write("changed")
final_result = 1
# ends: PermissionError
