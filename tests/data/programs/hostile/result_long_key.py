final_result = {"x" * 10**6: 1}
# ends: longer than 200,000
