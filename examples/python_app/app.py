"""An agent in Python. `retinue serve app.py` serves it, and `python app.py` asks it a question."""

from retinue import Agent, tool


@tool(effects="read")
def weather(city: str) -> str:
    """The weather in a city now."""
    return f"It is sunny in {city}."


agent = Agent("local", [weather], name="guide")
if __name__ == "__main__":
    print(agent.run("Do I need an umbrella in Rome?").text)
