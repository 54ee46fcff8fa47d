scores = {"Ann": 82, "Bob": 91, "Cid": 77}
final_result = {"all pass": all(s > 50 for s in scores.values()), "top": max(scores, key=scores.get)}
# {'all pass': True, 'top': 'Bob'}
