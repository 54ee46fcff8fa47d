import asyncio

async def main():
    await asyncio.gather(*[asyncio.sleep(3) for _ in range(1000)])

asyncio.run(main())
# ends: TimeoutError
