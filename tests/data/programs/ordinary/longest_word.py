sentence = "Retrieval augmented generation is useful"
final_result = max(sentence.split(), key=len)
# 'generation'
