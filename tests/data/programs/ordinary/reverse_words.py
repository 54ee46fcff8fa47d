sentence = "Agents decide and act"
final_result = " ".join(word[::-1] for word in sentence.split())
# 'stnegA ediced dna tca'
