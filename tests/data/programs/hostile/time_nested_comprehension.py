final_result = sum(a * b * c for a in range(10**4) for b in range(10**4) for c in range(10**4))
# ends: TimeoutError
