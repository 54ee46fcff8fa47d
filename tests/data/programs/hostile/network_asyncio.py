import asyncio

async def out():
    reader, writer = await asyncio.open_connection("127.0.0.1", CANARY_PORT)
    writer.write(b"out")

asyncio.run(out())
# ends: AttributeError
