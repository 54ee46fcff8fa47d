"""Seed 000's question, the transcript it prints, and what a model says to bring it about."""

from __future__ import annotations

QUESTION = "Who is Olivia Wilde's boyfriend? What is his current age raised to the 0.23 power?"
ABOUT = (
    "First linked in November 2011, Wilde and Sudeikis got engaged in January 2013. They later became parents, "
    "welcoming son Otis in 2014 and daughter Daisy in 2016."
)
ANSWER = (
    "Jason Sudeikis, Olivia Wilde's boyfriend, is 47 years old and his age raised to the 0.23 power is "
    "2.4242784855673896."
)
TRANSCRIPT = f"""\
Answer the following questions as best as you can. You have access to the following tools:
Search: useful for when you need to answer questions about current events. You should ask targeted questions
Calculator: useful for when you need to answer questions about math
Use the following format:
Question: the input question you must answer
Thought: you should always think about what to do
Action: the action to take, should be one of [Search, Calculator]
Action Input: the input to the action
Observation: the result of the action
... (this Thought/Action/Action Input/Observation can repeat N times)
Thought: I now know the final answer
Final Answer: the final answer to the original input question
Begin!
Question: {QUESTION}
Thought: I need to do some research to answer this question.
Action: Search
Action Input: Olivia Wilde's boyfriend
Observation: {ABOUT}
Thought: I need to find out his age
Action: Search
Action Input: Jason Sudeikis age
Observation: 47 years
Thought: I need to raise it to the 0.23 power
Action: Calculator
Action Input: 47^0.23
Observation: 2.4242784855673896
Thought: I now know the final answer
Final Answer: {ANSWER}"""

CALCULATOR = """\
# Write a simple python function that calculates
# $query
# Do not print the result; invoke the function and assign the result to final_result variable
# Start with import statement
"""
CODE = """

import math

def power(base, exponent):
    return math.pow(base, exponent)

final_result = power(47, 0.23)
"""
REPLIES = (
    " I need to do some research to answer this question.\nAction: Search\nAction Input: Olivia Wilde's boyfriend\n",
    " I need to find out his age\nAction: Search\nAction Input: Jason Sudeikis age\n",
    " I need to raise it to the 0.23 power\nAction: Calculator\nAction Input: 47^0.23\n",
    CODE,
    f" I now know the final answer\nFinal Answer: {ANSWER}",
)
