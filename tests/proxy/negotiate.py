"""Clients that negotiate first and connect then, as SignalR's do, with the libraries that IBM's SDK
brings: requests keeps the cookies, websocket-client sends them.

Takes the relay's address and the number of sessions. Makes the same sessions again for each line of
its input, with the cookies that they have, and says one JSON object a line about each.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import requests
import websocket


def connect(address, session):
    """Negotiates, connects, sends one message and hears the answer."""
    before = dict(session.cookies)
    answer = session.post(f"http://{address}/hub/negotiate?negotiateVersion=1", timeout=20)
    answer.raise_for_status()
    token = answer.json()["connectionToken"]
    cookies = "; ".join(f"{name}={value}" for name, value in session.cookies.items())
    socket = websocket.create_connection(f"ws://{address}/hub?id={token}", timeout=20,
                                         cookie=cookies)
    bound = [name for name in socket.getheaders() if name.lower() == "set-cookie"]
    socket.send("who is there?")
    said = socket.recv()
    socket.close()
    return {"event": "connected", "negotiated": answer.json()["node"], "said": said,
            "bound": [dict(session.cookies) != before, bool(bound)]}


def main(address, count):
    sessions = [requests.Session() for _ in range(int(count))]
    with ThreadPoolExecutor(max_workers=16) as pool:
        for _ in sys.stdin:
            for said in pool.map(lambda session: connect(address, session), sessions):
                print(json.dumps(said))
            print(json.dumps({"event": "done"}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
