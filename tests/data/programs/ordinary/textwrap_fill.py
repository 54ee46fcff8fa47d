import textwrap

final_result = textwrap.shorten("Agents decide, act and observe in a loop", width=20, placeholder="...")
# 'Agents decide,...'
