final_result = "a\0b"
open("CANARY_FILE\0.txt")
# ends: ValueError
