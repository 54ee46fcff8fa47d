final_result = "\ud800"
# gives: '�'
