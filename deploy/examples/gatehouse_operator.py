#!/usr/bin/env python3
"""What a script can do with a running gateway, over the operator's Unix socket: list sessions, follow the journal from any
point on, undo a change.

    python gatehouse_operator.py list
    python gatehouse_operator.py follow [--from SEQ] [--until KIND]
    python gatehouse_operator.py undo SESSION ACTION

Needs `pip install grpcio grpcio-tools`; the messages come from the .proto files beside it, so nothing is generated beforehand.
The socket is GATEHOUSE_SOCKET, or the default gateway's. Only your own user can open it.
"""

import argparse
import json
import os
import pathlib
import sys
import uuid

import grpc

PROTO = pathlib.Path(os.environ.get("GATEHOUSE_PROTO", pathlib.Path(__file__).resolve().parents[2] / "proto" / "proto"))
sys.path.insert(0, str(PROTO))
messages, services = grpc.protos_and_services("gatehouse/v1/operator.proto")
session_messages = grpc.protos("gatehouse/v1/session.proto")

# As large as the executor's own limit: a list of actions carries receipts.
LIMIT = 8 * 1024 * 1024


def socket():
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return os.environ.get("GATEHOUSE_SOCKET", f"{runtime}/gatehouse/operator/operator.sock")


def connect():
    # The name in the request is of no account on a Unix socket.
    options = [("grpc.max_receive_message_length", LIMIT), ("grpc.default_authority", "localhost")]
    return services.OperatorStub(grpc.insecure_channel(f"unix:{socket()}", options))


def sessions(operator):
    """All sessions, page by page, newest first."""
    after = None
    while True:
        page = operator.ListSessions(messages.ListSessionsRequest(limit=200, after=after), timeout=30)
        yield from page.sessions
        if not page.HasField("next"):
            return
        after = page.next


def status_name(session):
    return session_messages.SessionStatus.Name(session.status).removeprefix("SESSION_STATUS_").lower()


def show_list(operator, _):
    for session in sessions(operator):
        print(session.native_session_id, status_name(session), session.working_directory, sep="\t", flush=True)


def follow(operator, arguments):
    """Every event from a sequence number on, then live, one JSON object a line. When the gateway goes away, it is asked again
    from the first event that has not been seen: none is lost, and none comes twice."""
    following = arguments.from_seq
    while True:
        try:
            for event in operator.WatchEvents(messages.WatchEventsRequest(from_seq=following), wait_for_ready=True):
                line = {"seq": event.seq, "session": event.native_session_id, "kind": event.kind}
                print(json.dumps(line | {"body": json.loads(event.body_json)}), flush=True)
                following = event.seq + 1
                if event.kind == arguments.until:
                    return
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise


def undo(operator, arguments):
    """Undoes a write, if its file is still what the write left. Asking again with the same request_id is the same request."""
    request = messages.UndoActionRequest(
        native_session_id=arguments.session, tool_call_id=arguments.action, request_id=str(uuid.uuid4())
    )
    undone = operator.UndoAction(request, timeout=60)
    receipt = json.loads(undone.receipt_json or "{}")
    if not undone.HasField("ok"):
        sys.exit(f"nobody can tell whether it was undone: look at the file, then `gatehouse resolve {undone.tool_call_id}`")
    if not undone.ok:
        sys.exit(f"{receipt.get('code')}: {receipt.get('message')}")
    print(undone.tool_call_id, receipt.get("file_path"), sep="\t")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("list").set_defaults(run=show_list)
    following = commands.add_parser("follow")
    following.add_argument("--from", dest="from_seq", type=int, default=1, help="the first event wanted (1: all)")
    following.add_argument("--until", metavar="KIND", help="end after an event of this kind, such as session.stopped")
    following.set_defaults(run=follow)
    undoing = commands.add_parser("undo")
    undoing.add_argument("session")
    undoing.add_argument("action")
    undoing.set_defaults(run=undo)
    arguments = parser.parse_args()
    try:
        arguments.run(connect(), arguments)
    except grpc.RpcError as error:
        sys.exit(f"the gateway refused, or is not there: {error.code().name}: {error.details()}")


if __name__ == "__main__":
    main()
