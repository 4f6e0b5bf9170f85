"""A client of a node over gRPC without an SDK: it subscribes to a channel and prints what is published there.

    python main.py ADDRESS CHANNEL

ADDRESS is host:port. The stubs are made from the description of the service when the program starts, so that there is no generated code.
"""

import queue
import sys
from pathlib import Path

import grpc

sys.path.append(str(Path(__file__).resolve().parents[3] / "push" / "protocol" / "protobuf"))  # where client.proto is
messages, services = grpc.protos_and_services("clientv1/client.proto")


def listen(address, channel):
    """Subscribes to a channel and prints publications until the session ends, which raises."""
    commands = queue.Queue()
    commands.put(messages.Command(id=1, connect=messages.ConnectRequest()))
    commands.put(messages.Command(id=2, subscribe=messages.SubscribeRequest(channel=channel)))
    with grpc.insecure_channel(address) as connection:
        for reply in services.ClientStub(connection).Connect(iter(commands.get, None)):
            if reply.HasField("error"):
                sys.exit(f"error {reply.error.code}: {reply.error.message}")
            if reply.id == 2:
                print("subscribed to", channel, flush=True)
            elif reply.push.HasField("pub"):
                print(reply.push.pub.offset, reply.push.pub.data.decode(), flush=True)
            elif reply.id == 0 and not reply.HasField("push"):  # a ping
                commands.put(messages.Command())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: main.py ADDRESS CHANNEL")
    try:
        listen(*sys.argv[1:])
    except grpc.RpcError as e:
        sys.exit(f"{e.code().name}: {e.details()}")
