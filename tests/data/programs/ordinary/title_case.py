final_result = "the old man and the sea".title()
# 'The Old Man And The Sea'
