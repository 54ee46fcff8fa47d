final_result = b"x" * 10**6
# ends: longer than 200,000
