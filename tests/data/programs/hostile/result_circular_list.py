final_result = []
final_result.append(final_result)
# gives: ['[...]']
