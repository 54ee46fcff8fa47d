import asyncio
asyncio.run(asyncio.sleep(5))
# ends: sleep limit exceeded
